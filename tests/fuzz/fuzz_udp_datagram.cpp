// Feeds arbitrary datagrams to the UDP engine, which must not crash, exceed a bound, or compute a request twice.
//
// The first input byte selects options. If bit 0 is set, the header fields that the server checks first are corrected,
// so that the input reaches the code after those checks. If bit 1 is set, a session is opened first. The rest is a
// series of records: a u16 length, a datagram of that length, and a u8 time that passes.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "server/udp/engine.hpp"
#include "server/udp/wire/bytes.hpp"
#include "server/udp/wire/signature.hpp"

namespace {

using namespace millrace;
using namespace millrace::server::udp;
using namespace std::chrono_literals;
using runtime::pipeline::Frame;

void require(bool holds) {
  if (!holds) std::abort();
}

class EchoPipeline final : public runtime::pipeline::Pipeline {
 public:
  EchoPipeline() {
    plan_.model.inputs = {{"x", "UINT8", {1, 300}}};
    plan_.model.outputs = {{"y", "UINT8", {1, 700}}};
  }
  const runtime::plan::Deployment& deployment() const override { return plan_; }
  Status submit(Frame& frame) override {
    require(frame.inputs.size() == 1 && frame.inputs[0].size() == 300 && frame.outputs[0].size() == 700);
    std::fill(frame.outputs[0].begin(), frame.outputs[0].end(), frame.inputs[0][0]);
    ++computed;
    frame.on_complete(frame, frame.context);
    return {};
  }
  void cancel(Frame&) override {}
  bool ready() const override { return true; }
  runtime::pipeline::PipelineStatus status() override { return {}; }
  void stop(std::chrono::milliseconds) override {}

  std::size_t computed = 0;

 private:
  runtime::plan::Deployment plan_;
};

class Directory final : public ModelDirectory {
 public:
  explicit Directory(runtime::pipeline::Pipeline& pipeline) : model_(*ServedModel::make(kHandle, pipeline)) {}
  Outcome by_handle(std::uint32_t handle, std::shared_ptr<ServedModel>& out) override {
    if (handle == kHandle) out = model_;
    return handle == kHandle ? Outcome::kFound : handle == kHandle + 1 ? Outcome::kStale : Outcome::kUnknown;
  }
  std::shared_ptr<ServedModel> by_name(std::string_view name, std::string_view) override {
    return name.empty() ? nullptr : model_;
  }
  static constexpr std::uint32_t kHandle = 0x10001;

 private:
  std::shared_ptr<ServedModel> model_;
};

/// Checks the server's datagrams: they must be well-formed, and no peer without a session may get more than it sent.
class CheckingSender final : public Sender {
 public:
  void send(const Address&, std::span<const Piece> pieces) override {
    for (const Piece& piece : pieces) {
      std::vector<std::byte> bytes(piece.head.begin(), piece.head.end());
      bytes.insert(bytes.end(), piece.payload.begin(), piece.payload.end());
      wire::Datagram d;
      require(wire::parse(bytes, d) == wire::Refusal::kNone && d.header.from_server);
      said += bytes.size();
      if (d.header.type != wire::Type::kCookie) continue;
      wire::CookieReply reply;
      require(wire::decode(d.payload, reply));
      cookie = reply.cookie;
    }
  }
  std::size_t said = 0;
  wire::Cookie cookie{};
};

constexpr std::uint64_t kClient = 7;

struct Bench {
  EchoPipeline pipeline;
  Directory directory{pipeline};
  CheckingSender sender;
  Counters counters;
  wire::KeyRing keys;
  EngineOptions options = [] {
    EngineOptions o;
    o.fragment_bytes = 256;
    o.max_sessions = 2;
    o.window = 4;
    o.max_receiving = 2;
    o.max_requests = 5;
    o.max_buffer_bytes = 4000;
    o.session_idle = 10s;
    o.cookie_period = 2s;
    return o;
  }();
  Engine engine{options, {std::shared_ptr<void>(), &keys}, directory, sender, counters};
  Address address;
  Clock::time_point now{1000h};

  void hello(std::uint64_t id) {
    std::array<std::byte, wire::kHeaderBytes + wire::kMaxHelloBytes> bytes{};
    wire::Hello h;
    h.cookie = sender.cookie;
    const std::size_t body = wire::encode(h, std::span(bytes).subspan(wire::kHeaderBytes));
    wire::Header head;
    head.type = wire::Type::kHello;
    head.client_id = kClient;
    head.request_id = id;
    head.total_len = static_cast<std::uint32_t>(body);
    wire::write_header(head, std::span(bytes).first<wire::kHeaderBytes>());
    engine.receive(std::span(bytes).first(wire::kHeaderBytes + body), address, now);
  }
};

/// Corrects the header fields whose values the server checks first, and leaves the rest of the datagram unchanged.
void repair(std::span<std::byte> bytes) {
  if (bytes.size() < wire::kHeaderBytes) return;
  wire::store<std::uint16_t>(bytes, 0, wire::kMagic);
  wire::store<std::uint8_t>(bytes, 2, wire::kVersion);
  wire::store<std::uint8_t>(bytes, 3, static_cast<std::uint8_t>(1 + wire::load<std::uint8_t>(bytes, 3) % 10));
  wire::store<std::uint32_t>(bytes, 4, std::uint32_t{wire::kHeaderBytes} << 16U);
  wire::store<std::uint64_t>(bytes, 8, kClient);
  wire::store<std::uint64_t>(bytes, 16, wire::load<std::uint64_t>(bytes, 16) % 32);
  if (wire::load<std::uint16_t>(bytes, 26) <= 1) {
    wire::store<std::uint32_t>(bytes, 24, 1U << 16U);
    wire::store<std::uint32_t>(bytes, 28, static_cast<std::uint32_t>(bytes.size() - wire::kHeaderBytes));
  }
}

void decode_all(std::span<const std::byte> body) {
  wire::Hello hello;
  wire::CookieReply cookie;
  wire::Nack nack;
  wire::Err err;
  wire::Busy busy;
  wire::Pong pong;
  wire::Signature signature;
  (void)wire::decode(body, hello);
  (void)wire::decode(body, nack);
  (void)wire::decode(body, err);
  (void)wire::decode(body, busy);
  (void)wire::decode(body, pong);
  if (wire::decode(body, cookie)) (void)wire::decode(cookie.signature, signature);
  if (wire::decode(body, signature)) {
    // If sums_to() returns true, no tensor may be empty or larger than `bytes`, because clients rely on that.
    for (const std::uint64_t bytes : {std::uint64_t{4}, std::uint64_t{300}, std::uint64_t{0xFFFFFFFF}})
      if (wire::sums_to(signature.outputs, bytes))
        for (const wire::TensorDescription& t : signature.outputs) {
          std::uint64_t size = wire::datatype_bytes(t.datatype);
          for (const std::uint32_t n : t.shape) require(!__builtin_mul_overflow(size, n, &size));
          require(size != 0 && size <= bytes);
        }
    const auto again = wire::encode(signature);
    require(std::equal(again.begin(), again.end(), body.begin(), body.end()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Bench bench;
  const bool repaired = (data[0] & 1U) != 0, session = (data[0] & 2U) != 0;
  if (session) {
    bench.hello(0);
    bench.hello(0);
    require(bench.engine.sessions() == 1);
  }
  std::span<const std::uint8_t> rest(data + 1, size - 1);
  decode_all(std::as_bytes(rest));
  std::set<std::uint64_t> ids;
  while (rest.size() > 3) {
    const std::size_t length = std::min(rest[0] + std::size_t{256} * rest[1], rest.size() - 3);
    const auto from = std::as_bytes(rest.subspan(2, length));
    std::vector<std::byte> bytes(from.begin(), from.end());  // copied, so that ASan detects overreads
    if (repaired) repair(bytes);
    if (bytes.size() >= wire::kHeaderBytes) ids.insert(wire::load<std::uint64_t>(bytes, 16));
    const bool stranger = bench.engine.sessions() == 0;
    bench.sender.said = 0;
    bench.engine.receive(bytes, bench.address, bench.now);
    if (stranger && bench.engine.sessions() == 0) require(bench.sender.said <= bytes.size());
    bench.now += std::chrono::milliseconds(rest[2 + length]);
    if (bench.now >= bench.engine.next_tick()) bench.engine.tick(bench.now);
    require(bench.engine.buffer_bytes() <= bench.options.max_buffer_bytes);
    require(bench.engine.receiving() <= 2 * bench.options.max_receiving && bench.engine.sessions() <= 2);
    rest = rest.subspan(3 + length);
  }
  require(bench.pipeline.computed <= ids.size());
  return 0;
}
