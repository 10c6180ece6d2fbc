// Counts the allocations that a server makes for a request once it is warm, and the allocations of Beast's parser for
// the same bytes. Programs that include this file link counted_allocations.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/vector_body.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "raw_client.hpp"
#include "server/http/server.hpp"
#include "tests/support/allocations.hpp"

namespace millrace::server::http::test {

inline constexpr int kRequests = 200;

/// Returns an infer request with `bytes` of binary input after the JSON `header`. The header may be empty.
inline std::string request_with(const std::string& model, const std::string& header, std::size_t bytes) {
  return "POST /v2/models/" + model +
         "/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: " + std::to_string(header.size()) +
         "\r\nContent-Length: " + std::to_string(header.size() + bytes) + "\r\n\r\n" + header +
         std::string(bytes, 'x');
}

/// Returns the average number of allocations of Beast's parser for one request.
inline double parsers_own(const std::string& request) {
  namespace bhttp = boost::beast::http;
  const std::uint64_t before = tests::allocations_of_this_thread();
  for (int i = 0; i < kRequests; ++i) {
    std::optional<bhttp::request_parser<bhttp::vector_body<unsigned char>>> parser;
    parser.emplace();
    parser->eager(true);
    boost::system::error_code error;
    std::size_t at = 0;
    while (at < request.size() && !error)
      at += parser->put(boost::asio::buffer(request.data() + at, request.size() - at), error);
    EXPECT_TRUE(parser->is_done()) << error.message();
  }
  const std::uint64_t after = tests::allocations_of_this_thread();
  return static_cast<double>(after - before) / kRequests;
}

/// Returns how many allocations all threads of a server with this pipeline make for one request. Takes the smallest
/// average of several batches, because a pipeline's occasional allocations do not belong to a request.
inline double servers_own(const std::shared_ptr<runtime::pipeline::Pipeline>& pipeline,
                          const std::string& request) {
  constexpr int kBatches = 5;
  const tests::Uncounted client_side;
  const std::string name = pipeline->deployment().model.name;
  const auto metrics = metrics::Metrics::create("test");
  models::Registry registry;
  Api api(registry, *metrics, {"test"});
  const Status published =
      registry.publish(std::make_shared<models::Model>(name, "1", pipeline, metrics->model(name, "1")));
  EXPECT_TRUE(published.ok());
  ServerOptions options;
  options.idle_timeout = options.header_timeout = options.body_timeout = options.write_timeout =
      options.linger = std::chrono::hours(1);
  const auto server = Server::open(options, api, registry, *metrics);
  EXPECT_TRUE(server.ok());
  server::test::RawClient client((*server)->address());
  const auto exchange = [&](int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(client.send(request));
      EXPECT_EQ(client.receive().status, 200);
    }
  };
  exchange(20);
  double least = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < kBatches; ++batch) {
    const std::uint64_t before = tests::allocations();
    exchange(kRequests / kBatches);
    least = std::min(least, static_cast<double>(tests::allocations() - before) * kBatches / kRequests);
  }
  return least;
}

inline void expect_none_beyond_the_parsers(const std::shared_ptr<runtime::pipeline::Pipeline>& pipeline,
                                           const std::string& request) {
  const double parser = parsers_own(request);
  const double all = servers_own(pipeline, request);
  testing::Test::RecordProperty("parser", std::to_string(parser));
  testing::Test::RecordProperty("server", std::to_string(all));
  EXPECT_GE(parser, 1) << "nothing was counted";
  EXPECT_LE(all, parser) << "the server allocates " << all << " times a request, the parser " << parser;
}

}  // namespace millrace::server::http::test
