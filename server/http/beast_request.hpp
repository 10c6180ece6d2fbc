// A request as Beast parsed it -> as the handlers see it. Internal to the folder: for session.cpp.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/vector_body.hpp>
#include <string_view>

#include "server/http/message.hpp"

namespace millrace::server::http {

using Body = boost::beast::http::vector_body<unsigned char>;

inline std::string_view view_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

class FieldsView final : public Headers {
 public:
  explicit FieldsView(const boost::beast::http::fields& fields) : fields_(fields) {}
  std::string_view find(std::string_view name) const override {
    return view_of(fields_[boost::beast::string_view(name.data(), name.size())]);
  }

 private:
  const boost::beast::http::fields& fields_;
};

/// Without the body. Views into both.
inline Request request_of(const boost::beast::http::request<Body>& message, const FieldsView& headers,
                          Gate gate) {
  using boost::beast::http::verb;
  Request request;
  const verb method = message.method();
  request.method = method == verb::get       ? Method::kGet
                   : method == verb::post    ? Method::kPost
                   : method == verb::options ? Method::kOptions
                                             : Method::kOther;
  request.target = view_of(message.target());
  request.headers = &headers;
  request.gate = gate;
  return request;
}

}  // namespace millrace::server::http
