// Sends arbitrary bytes of a connection through the HTTP server's parser, content coding, routes, handlers and a
// pipeline. The server must not crash, exceed a bound, or send a malformed answer.
//
// The first input byte selects options. If bit 0 is set, tokens are required. If bit 1 is set, web pages of one origin
// may read answers. If bit 2 is set, the request arrives on a listener without admin routes.
#include <algorithm>
#include <boost/json/parse.hpp>
#include <cstdlib>
#include <memory>
#include <string>

#include "runtime/base/log.hpp"
#include "server/http/connection/coding.hpp"
#include "server/http/connection/incoming.hpp"
#include "server/http/connection/response_head.hpp"
#include "server/http/routes/api.hpp"

namespace {

using namespace millrace;
using namespace millrace::server;
using namespace millrace::server::http;

constexpr std::uint64_t kMostBody = 65'536;

void require(bool holds) {
  if (!holds) std::abort();
}

class EchoPipeline final : public runtime::pipeline::Pipeline {
 public:
  EchoPipeline() {
    plan_.model.name = "m";
    plan_.model.inputs = {{"x", "FP32", {1, 2, 2}}, {"n", "UINT8", {1, 3}}};
    plan_.model.outputs = {{"y", "FP32", {1, 4}}};
    plan_.model.labels = {"a", "b"};
  }
  const runtime::plan::Deployment& deployment() const override { return plan_; }
  Status submit(runtime::pipeline::Frame& frame) override {
    require(frame.inputs.size() == 2 && frame.inputs[0].size() == 16 && frame.inputs[1].size() == 3);
    require(frame.outputs.size() == 1 && frame.outputs[0].size() == 16);
    require(frame.priority >= runtime::pipeline::kFirstPriority &&
            frame.priority <= runtime::pipeline::kLastPriority);
    std::copy(frame.inputs[0].begin(), frame.inputs[0].end(), frame.outputs[0].begin());
    frame.on_complete(frame, frame.context);
    return {};
  }
  void cancel(runtime::pipeline::Frame&) override {}
  bool ready() const override { return true; }
  runtime::pipeline::PipelineStatus status() override { return {}; }
  void stop(std::chrono::milliseconds) override {}

 private:
  runtime::plan::Deployment plan_;
};

struct World {
  World() {
    log::configure(log::Level::kOff, false);
    guard.replace(std::make_shared<const auth::Tokens>(
        auth::Tokens::parse(
            "r read reader-token-0000\nw infer writer-token-0000\na admin master-token-0000\n", "tokens")
            .value()));
    require(registry
                .publish(std::make_shared<models::Model>("m", "1", std::make_shared<EchoPipeline>(),
                                                         metrics->model("m", "1")))
                .ok());
  }
  std::unique_ptr<metrics::Metrics> metrics = metrics::Metrics::create("fuzz");
  models::Registry registry;
  auth::Guard guard;
  Api open{registry, *metrics, {"fuzz"}};
  Api guarded{registry, *metrics, {"fuzz", std::chrono::milliseconds(1000), &guard, {}}};
  Api cors{registry, *metrics, {"fuzz", std::chrono::milliseconds(1000), nullptr, {"http://a"}}};
  Workspace workspace;
};

void check(const Response& response) {
  require(response.status >= 200 && response.status < 600);
  if (response.status < 400) return;
  require(response.content_type == "application/json" && response.binary.empty());
  boost::system::error_code error;
  const auto body = boost::json::parse(response.body, error);
  require(!error && body.is_object());
  require(body.as_object().contains("error") || body.as_object().contains("ready"));
}

Response answer(World& world, const Api& api, Request request, std::string_view encoding,
                std::vector<std::byte>& decoded_body) {
  if (auto no = api.refusal(request, world.workspace); no && request.method != Method::kOptions) return *no;
  if (!encoding.empty()) {
    const auto coding = parse_coding(encoding);
    if (!coding) return error_response(501, "coding");
    auto body = decoded(*coding, request.body, kMostBody);
    if (!body) return error_response(body.error());
    require(body->size() <= kMostBody);
    decoded_body = std::move(body).value();
    request.body = decoded_body;
  }
  auto outcome = api.handle(request, world.workspace, std::chrono::steady_clock::now());
  if (auto* response = std::get_if<Response>(&outcome)) return std::move(*response);
  if (auto* job = std::get_if<ControlJob>(&outcome)) return job->run();
  auto& inference = std::get<InferencePool::Lease>(outcome);
  bool done = false;
  const Status started = inference->start(
      [](runtime::pipeline::Frame&, void* flag) { *static_cast<bool*>(flag) = true; }, &done);
  if (!started.ok()) return error_response(started.error());
  require(done);
  Response response = inference->finish();
  response.binary.clear();  // its elements point into `inference`, which is destroyed here
  return response;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto& world = *new World;
  if (size == 0) return 0;
  const std::uint8_t choice = data[0];
  static const ServerOptions options = [] {
    ServerOptions out;
    out.max_header_bytes = 4'096;
    out.max_body_bytes = kMostBody;
    return out;
  }();
  Incoming incoming(options);
  incoming.begin();
  std::copy(data + 1, data + size, static_cast<std::uint8_t*>(incoming.room(size - 1).data()));
  incoming.commit(size - 1);
  if (const auto no = incoming.parse()) return check(*no), 0;
  if (!incoming.done()) return 0;
  Request request = incoming.request({(choice & 4U) == 0, (choice & 8U) == 0});
  if (const auto no = incoming.take_inference_header_length(request)) return check(*no), 0;
  request.body = std::as_bytes(incoming.body());

  const Api& api = (choice & 1U) != 0 ? world.guarded : (choice & 2U) != 0 ? world.cors : world.open;
  std::vector<std::byte> decoded_body;
  Response response = answer(world, api, request, incoming.content_coding(), decoded_body);
  check(response);
  HeadOptions head;
  const std::string more = api.cors_headers(request);
  head.more_headers = more;
  head.coding = compressed(response, preferred_coding(incoming.find("Accept-Encoding")), 64);
  std::string bytes;
  write_response_head(bytes, response, head);
  require(bytes.ends_with("\r\n\r\n") && bytes.find("\r\n\r\n") == bytes.size() - 4);
  return 0;
}
