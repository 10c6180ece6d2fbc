// The client's side of the UDP protocol that server/udp/README.md specifies. The file exceeds 500 lines because
// sessions and requests share the socket, the request ids and the timers.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "server/udp/wire/assembly.hpp"
#include "server/udp/wire/keys.hpp"
#include "server/udp/wire/messages.hpp"
#include "server/udp/wire/signature.hpp"
#include "transport.hpp"
#include "udp_socket.hpp"

namespace millrace::client {
namespace {

namespace wire = server::udp::wire;
using std::chrono::microseconds;

constexpr microseconds kGap{1000};  // silence before a NACK; doubles with each NACK
constexpr unsigned kGapTries = 3;   // NACKs in a row before fragment 0 is sent again instead
constexpr std::chrono::milliseconds kLongestRetry{80};
constexpr unsigned kRefusals = 4;  // more than one, because a server may be restarting

Status status_of(const wire::Err& err) {
  const std::string message = std::string(to_string(err.code)) + ": " + std::string(err.message);
  switch (err.code) {
    case wire::ErrCode::kUnknownModel:
      return {Code::kNotFound, message};
    case wire::ErrCode::kSize:
      return {Code::kInvalid, message};
    case wire::ErrCode::kDeadline:
      return {Code::kDeadline, message};
    case wire::ErrCode::kInternal:
      return {Code::kInternal, message};
    case wire::ErrCode::kMalformed:
    case wire::ErrCode::kConflict:
    case wire::ErrCode::kStale:
      return {Code::kProtocol, message};
    case wire::ErrCode::kNoSession:
    case wire::ErrCode::kGeneration:
    case wire::ErrCode::kUnavailable:
      return {Code::kUnavailable, message};
  }
  return {Code::kProtocol, message};
}

/// A timer whose interval doubles each time, up to `longest`, or stays as it is if it is already longer.
struct Timer {
  Clock::time_point due = Clock::time_point::max();
  microseconds interval{0}, longest{0};
  unsigned fired = 0;

  void start(Clock::time_point now, microseconds first) {
    interval = first;
    longest = std::max<microseconds>(first, kLongestRetry);
    fired = 0;
    due = now + interval;
  }
  void again(Clock::time_point now) {
    ++fired;
    interval = std::min(interval * 2, longest);
    due = now + interval;
  }
};

struct UdpModel {
  ModelInfo info;
  std::uint32_t handle = 0;
  std::uint32_t input_bytes = 0, output_bytes = 0;
  std::vector<std::uint64_t> inputs, outputs;  // bytes of each tensor of `info`
};

class UdpClient final : public Client {
 public:
  Status open(const HostPort& url, const Options& options) {
    options_ = options;
    if (options.fragment_bytes < wire::kMinFragmentBytes || options.fragment_bytes > wire::kMaxFragmentBytes)
      return {Code::kInvalid,
              "fragment_bytes is " + std::to_string(options.fragment_bytes) + "; it must be 256 to 65000"};
    if (options.retry < microseconds(100)) return {Code::kInvalid, "retry is below 100 µs"};
    if (options.key_id != 0)
      if (const auto added = keys_.add(options.key_id, options.key); !added)
        return {Code::kInvalid, added.error().message()};
    std::array<std::byte, 8> id;
    wire::random_bytes(id);
    std::memcpy(&client_id_, id.data(), 8);
    name_ = "udp://" + url.host + ":" + url.port;
    if (Status s = socket_.open(url, options.fragment_bytes + wire::kMaxHeaderBytes, options.retry); !s.ok())
      return s;
    Status s = greet("", "", nullptr, Clock::now() + options.timeout);
    // If the server has never answered, it probably cannot be reached, so do not report a missed deadline.
    if (s.code == Code::kDeadline)
      s = {Code::kUnavailable,
           s.message + (options.key_id == 0
                            ? " (there is no Millrace server at this address, or it requires a key)"
                            : " (there is no Millrace server at this address, or its keys do not match key " +
                                  std::to_string(options.key_id) + ")")};
    return s;
  }

  Status ready() override {
    std::array<std::byte, wire::kMinPingBytes> ping{};
    const std::uint64_t id = ++last_id_;
    Status result;
    const Status answered = exchange(
        id, Clock::now() + options_.timeout, [&] { send_one(wire::Type::kPing, id, ping); },
        [&](const wire::Datagram& d) {
          wire::Pong pong;
          if (d.header.type != wire::Type::kPong || !decode(d.payload, pong)) return false;
          result = pong.draining ? Status{Code::kUnavailable, name_ + ": the server is stopping"} : Status{};
          return true;
        });
    return answered.ok() ? result : Status{Code::kUnavailable, answered.message};
  }

  Status model(const std::string& name, const std::string& version, ModelInfo& out) override {
    const UdpModel* found = nullptr;
    if (Status s = find(name, version, Clock::now() + options_.timeout, found); !s.ok()) return s;
    if (found->info.inputs.empty())
      return {Code::kUnavailable, "the model's description does not fit into one datagram; ask over HTTP"};
    out = found->info;
    return {};
  }

  Status infer(const std::string& name, const std::string& version, std::span<const Input> inputs,
               microseconds timeout, std::vector<std::vector<std::byte>>& outputs) override {
    Clock::time_point now = Clock::now();
    const Clock::time_point deadline = now + timeout;
    // The session can end, or the model's version can be replaced, at any time. The session can then be opened again,
    // or the model looked up again, without an error to the caller.
    for (int attempt = 0;; ++attempt) {
      const UdpModel* found = nullptr;
      const std::uint64_t before = last_id_;
      if (Status s = find(name, version, deadline, found); !s.ok()) return s;
      const UdpModel& m = *found;
      if (Status s = gather(m, inputs); !s.ok()) return s;
      // Check the size before allocating memory, because a server can claim any size.
      if (wire::Layout response; !wire::make_layout(m.output_bytes, options_.fragment_bytes, response))
        return {Code::kInvalid,
                "the outputs do not fit into 65,535 fragments; choose a larger fragment_bytes"};
      received_.resize(m.output_bytes);
      std::optional<wire::ErrCode> again;
      // Read the clock again only if time has passed: reading it takes a noticeable part of a small request.
      if (attempt > 0 || last_id_ != before || layout_.count > 1) now = Clock::now();
      const Status s = run(m, now, deadline, again);
      if (s.ok()) return scatter(m, outputs);
      if (!again || attempt == 3) return s;
      if (*again == wire::ErrCode::kNoSession)
        models_.clear();
      else
        forget(name, version);
    }
  }

 private:
  // The functions below send datagrams.

  std::span<const std::byte> head(const wire::Header& header, std::span<const std::byte> payload,
                                  std::array<std::byte, wire::kMaxHeaderBytes>& out) const {
    wire::write_header(header, std::span(out).first<wire::kHeaderBytes>());
    if (header.tagged())
      keys_.sign(header.key_id, std::span(out).first<wire::kHeaderBytes>(), payload,
                 std::span(out).subspan<wire::kHeaderBytes, wire::kTagBytes>());
    return std::span<const std::byte>(out).first(header.bytes());
  }

  void send_one(wire::Type type, std::uint64_t id, std::span<const std::byte> body) {
    wire::Header h;
    h.type = type;
    h.key_id = options_.key_id;
    h.client_id = client_id_;
    h.request_id = id;
    h.total_len = static_cast<std::uint32_t>(body.size());
    std::array<std::byte, wire::kMaxHeaderBytes> room;
    const UdpSocket::Piece piece{head(h, body, room), body};
    socket_.send(std::span(&piece, 1));
  }

  /// Of the request's fragments first, first + 1, …, end - 1, sends those for which wanted(i) holds, at most kBurst.
  template <class Wanted>
  void send_fragments(std::uint32_t first, std::uint32_t end, Wanted&& wanted) {
    // Send a single fragment directly, because preparing a burst takes longer than sending one fragment.
    if (layout_.count == 1)
      send_at_most<1>(first, end, wanted);
    else
      send_at_most<wire::kBurst>(first, end, wanted);
  }
  template <std::size_t kRoom, class Wanted>
  void send_at_most(std::uint32_t first, std::uint32_t end, const Wanted& wanted) {
    std::array<std::array<std::byte, wire::kMaxHeaderBytes>, kRoom> rooms;
    std::array<UdpSocket::Piece, kRoom> pieces;
    std::size_t used = 0;
    for (std::uint32_t i = first; i < end && i < layout_.count && used < kRoom; ++i) {
      if (!wanted(i)) continue;
      request_.frag_index = static_cast<std::uint16_t>(i);
      const auto payload = message_.subspan(layout_.offset(i), layout_.length(i));
      pieces[used] = {head(request_, payload, rooms[used]), payload};
      ++used;
    }
    if (used != 0) socket_.send(std::span(pieces).first(used));
  }
  void send_first_burst() {
    send_fragments(0, wire::kBurst, [](std::uint32_t) { return true; });
  }

  // The functions below receive datagrams.

  /// Calls f(datagram) for each received datagram that belongs to request `id`. Waits until `until` at the latest.
  template <class F>
  void receive(std::uint64_t id, Clock::time_point now, Clock::time_point until, bool several, F&& f) {
    const std::size_t count = socket_.receive(now, until, several);
    for (std::size_t i = 0; i < count; ++i) {
      wire::Datagram d;
      if (wire::parse(socket_.datagram(i), d) != wire::Refusal::kNone || !d.header.from_server ||
          d.header.client_id != client_id_ || d.header.request_id != id)
        continue;
      if (d.header.key_id != options_.key_id || (d.header.tagged() && !keys_.verify(d))) continue;
      f(d);
    }
  }

  Status nothing_listens() const { return {Code::kUnavailable, name_ + ": nothing listens there"}; }

  /// Exchanges one-datagram messages: calls send() repeatedly until answered(datagram) is true for an answer, or the
  /// deadline passes. Fails with kDeadline, or with kUnavailable if nothing listens at the port.
  template <class Send, class Answered>
  Status exchange(std::uint64_t id, Clock::time_point deadline, Send&& send, Answered&& answered) {
    Timer timer;
    timer.start(Clock::now(), options_.retry);
    socket_.clear_refusals();
    send();
    while (true) {
      const Clock::time_point now = Clock::now();
      if (now >= deadline) return {Code::kDeadline, name_ + ": no answer within the deadline"};
      if (now >= timer.due) {
        if (socket_.refusals() >= kRefusals) return nothing_listens();
        send();
        timer.again(now);
      }
      bool done = false;
      receive(id, now, std::min(timer.due, deadline), false,
              [&](const wire::Datagram& d) { done = done || answered(d); });
      if (done) return {};
    }
  }

  // The functions below open sessions and look up models.

  /// Sends HELLO until the session is open. Looks up the model `name` unless the name is empty.
  Status greet(const std::string& name, const std::string& version, UdpModel* out,
               Clock::time_point deadline) {
    if (name.size() > wire::kMaxNameBytes || version.size() > wire::kMaxVersionBytes)
      return {Code::kInvalid, "model names have at most 255 bytes, and versions have at most 64 bytes"};
    wire::Hello hello;
    hello.fragment_bytes = options_.fragment_bytes;
    hello.name = name;
    hello.version = version;
    for (int round = 0; round < 4; ++round) {
      hello.cookie = cookie_;
      std::array<std::byte, wire::kMaxHelloBytes> body;
      const auto encoded = std::span<const std::byte>(body).first(encode(hello, body));
      const std::uint64_t id = ++last_id_;
      Status refused;
      bool open = false;
      const Status answered = exchange(
          id, deadline, [&] { send_one(wire::Type::kHello, id, encoded); },
          [&](const wire::Datagram& d) {
            wire::Busy busy;
            wire::CookieReply reply;
            if (d.header.type == wire::Type::kBusy && decode(d.payload, busy)) {
              refused = {Code::kBusy, name_ + ": the server already has its maximum number of clients"};
              return true;
            }
            if (d.header.type != wire::Type::kCookie || !decode(d.payload, reply)) return false;
            cookie_ = reply.cookie;
            // A new epoch means another server process, in which a handle (a model's number) is invalid or names
            // another model.
            if (reply.epoch != epoch_) models_.clear();
            epoch_ = reply.epoch;
            open = reply.state == wire::CookieState::kOpen;
            if (open && out != nullptr) refused = read(reply, name, version, *out);
            return true;
          });
      if (!answered.ok()) return answered;
      if (open || !refused.ok()) return refused;
    }
    return {Code::kProtocol, name_ + ": the server does not accept its own cookie"};
  }

  static Status read(const wire::CookieReply& reply, const std::string& name, const std::string& version,
                     UdpModel& out) {
    if (reply.model_error != 0) {
      const bool coming = reply.model_error == static_cast<std::uint16_t>(wire::ErrCode::kUnavailable);
      const std::string what = "model '" + name + "'" + (version.empty() ? "" : " version '" + version + "'");
      return coming ? Status{Code::kUnavailable, what + " is being loaded"}
                    : Status{Code::kNotFound, "no " + what};
    }
    wire::Signature signature;
    if (reply.model == 0 || reply.input_bytes == 0 || reply.output_bytes == 0)
      return {Code::kProtocol, "the model's description is empty"};
    if (!reply.signature.empty()) {
      if (!wire::decode(reply.signature, signature))
        return {Code::kProtocol, "the model's description is malformed"};
      if (!wire::sums_to(signature.inputs, reply.input_bytes) ||
          !wire::sums_to(signature.outputs, reply.output_bytes))
        return {Code::kProtocol, "the model's description contradicts its sizes"};
    }
    out.handle = reply.model;
    out.input_bytes = reply.input_bytes;
    out.output_bytes = reply.output_bytes;
    out.info = ModelInfo{name, version, {}, {}};
    for (auto [from, to] :
         {std::pair(&signature.inputs, &out.info.inputs), std::pair(&signature.outputs, &out.info.outputs)})
      for (wire::TensorDescription& t : *from)
        to->push_back(TensorInfo{std::move(t.name), std::move(t.datatype),
                                 std::vector<std::int64_t>(t.shape.begin(), t.shape.end())});
    out.inputs.clear();
    out.outputs.clear();
    for (const auto& tensor : out.info.inputs) out.inputs.push_back(tensor.bytes());
    for (const auto& tensor : out.info.outputs) out.outputs.push_back(tensor.bytes());
    return {};
  }

  Status find(const std::string& name, const std::string& version, Clock::time_point deadline,
              const UdpModel*& out) {
    const auto known = std::find_if(models_.begin(), models_.end(), [&](const auto& m) {
      return m->info.name == name && m->info.version == version;
    });
    if (known != models_.end()) {
      out = known->get();
      return {};
    }
    if (name.empty()) return {Code::kInvalid, "a model name is needed over UDP"};
    auto m = std::make_unique<UdpModel>();
    if (Status s = greet(name, version, m.get(), deadline); !s.ok()) return s;
    out = m.get();
    models_.push_back(std::move(m));
    return {};
  }
  void forget(const std::string& name, const std::string& version) {
    std::erase_if(models_, [&](const auto& m) { return m->info.name == name && m->info.version == version; });
  }

  // The functions below send one request and receive its response.

  Status gather(const UdpModel& m, std::span<const Input> inputs) {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      total += inputs[i].size();
      if (i < m.info.inputs.size() && inputs[i].size() != m.inputs[i])
        return {Code::kInvalid, "input '" + m.info.inputs[i].name + "' has " +
                                    std::to_string(inputs[i].size()) + " bytes; the model takes " +
                                    std::to_string(m.inputs[i])};
    }
    if (total != m.input_bytes || (!m.info.inputs.empty() && inputs.size() != m.info.inputs.size()))
      return {Code::kInvalid, "the inputs have " + std::to_string(total) + " bytes in " +
                                  std::to_string(inputs.size()) + " tensors; model '" + m.info.name +
                                  "' takes " + std::to_string(m.input_bytes) + " in " +
                                  std::to_string(m.info.inputs.size())};
    if (!wire::make_layout(m.input_bytes, options_.fragment_bytes, layout_))
      return {Code::kInvalid, "the inputs do not fit into 65,535 fragments; choose a larger fragment_bytes"};
    if (inputs.size() == 1) {
      message_ = inputs[0];
      return {};
    }
    joined_.clear();
    for (const Input& in : inputs) joined_.insert(joined_.end(), in.begin(), in.end());
    message_ = joined_;
    return {};
  }

  Status scatter(const UdpModel& m, std::vector<std::vector<std::byte>>& outputs) const {
    if (m.info.outputs.empty()) {
      outputs.resize(1);
      outputs[0].assign(received_.begin(), received_.end());
      return {};
    }
    outputs.resize(m.info.outputs.size());
    std::size_t at = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::uint64_t bytes = m.outputs[i];
      if (bytes > received_.size() - at)
        return {Code::kProtocol, "the response is shorter than the model's outputs"};
      const auto from = received_.begin() + static_cast<std::ptrdiff_t>(at);
      outputs[i].assign(from, from + static_cast<std::ptrdiff_t>(bytes));
      at += bytes;
    }
    return {};
  }

  /// Sends the gathered request and receives its response into received_. Sets `again` if the server demands
  /// a HELLO first.
  Status run(const UdpModel& m, Clock::time_point now, Clock::time_point deadline,
             std::optional<wire::ErrCode>& again) {
    if (now >= deadline) return {Code::kDeadline, "the deadline passed before the request was sent"};
    const std::uint64_t id = ++last_id_;
    request_ = wire::Header{};
    request_.key_id = options_.key_id;
    request_.client_id = client_id_;
    request_.request_id = id;
    request_.frag_count = layout_.count;
    request_.total_len = layout_.total;
    request_.model = m.handle;
    const auto left = std::chrono::duration_cast<microseconds>(deadline - now).count();
    request_.time_us = static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 1, 0xFFFFFFFF));

    Run state;
    state.retry.start(now, options_.retry);
    socket_.clear_refusals();
    send_first_burst();
    while (true) {
      const Clock::time_point until = std::min({deadline, state.retry.due, state.gap.due});
      receive(id, now, until, m.output_bytes > options_.fragment_bytes,
              [&](const wire::Datagram& d) { on_datagram(d, m, state); });
      if (state.done) {
        again = state.again;
        return std::move(state.status);
      }
      now = Clock::now();
      if (now >= deadline)
        return state.turned_away ? Status{Code::kBusy, name_ + ": the server was busy until the deadline"}
                                 : Status{Code::kDeadline, name_ + ": no answer within the deadline"};
      if (now >= state.gap.due) on_gap(id, now, state);
      if (now >= state.retry.due) {
        if (socket_.refusals() >= kRefusals) return nothing_listens();
        on_retry(now, state);
      }
    }
  }

  struct Run {
    Timer retry;               // sends fragment 0 again or, after BUSY, the whole request
    Timer gap;                 // sends a NACK for missing fragments of the response
    bool started = false;      // a fragment of the response has arrived
    bool busy = false;         // BUSY arrived; the request will be sent again
    bool turned_away = false;  // the server's last message was BUSY
    bool done = false;
    Status status;
    std::optional<wire::ErrCode> again;
  };

  void finish(Run& state, Status status) {
    state.done = true;
    state.status = std::move(status);
  }

  void on_datagram(const wire::Datagram& d, const UdpModel& m, Run& state) {
    if (state.done) return;
    state.turned_away = d.header.type == wire::Type::kBusy;
    wire::Nack nack;
    wire::Busy busy;
    wire::Err err;
    if (d.header.type == wire::Type::kRsp) return on_response(d, m, state);
    const Clock::time_point now = Clock::now();
    switch (d.header.type) {
      case wire::Type::kAck:
        state.retry.due = now + state.retry.interval;
        return;
      case wire::Type::kNack:
        if (!decode(d.payload, nack)) return;
        state.busy = false;
        state.retry.start(now, options_.retry);
        return send_fragments(nack.base, nack.base + nack.bits,
                              [&](std::uint32_t i) { return nack.wants(i - nack.base); });
      case wire::Type::kBusy:
        if (!decode(d.payload, busy)) return;
        state.busy = true;
        state.retry.start(now, options_.retry);
        state.retry.due = now + microseconds(busy.retry_after_us);
        return;
      case wire::Type::kErr:
        if (!decode(d.payload, err)) return;
        if (err.code == wire::ErrCode::kNoSession || err.code == wire::ErrCode::kGeneration)
          state.again = err.code;
        return finish(state, status_of(err));
      default:
        return;
    }
  }

  void on_response(const wire::Datagram& d, const UdpModel& m, Run& state) {
    wire::Layout layout;
    if (!wire::layout_of(d.header, d.payload.size(), layout) || layout.total != m.output_bytes ||
        d.header.model != m.handle)
      return finish(state, {Code::kProtocol, "the response comes from another model"});
    if (!state.started) {
      state.started = true;
      assembly_.start(layout, received_);
    }
    switch (assembly_.add(layout, d.header.frag_index, d.payload)) {
      case wire::Assembly::Outcome::kConflict:
        return finish(state, {Code::kProtocol, "two fragments of the response contradict each other"});
      case wire::Assembly::Outcome::kComplete:
        return finish(state, {});
      case wire::Assembly::Outcome::kDuplicate:
        // The server repeats its first fragments unasked. If no NACK is pending, ask for the missing fragments again.
        if (state.gap.due == Clock::time_point::max()) state.gap.start(Clock::now(), kGap);
        return;
      case wire::Assembly::Outcome::kAdded:
        break;
    }
    const Clock::time_point now = Clock::now();
    state.retry.start(now, options_.retry);
    state.gap.start(now, kGap);
    if (assembly_.wants_more()) on_gap(d.header.request_id, now, state);
  }

  void on_gap(std::uint64_t id, Clock::time_point now, Run& state) {
    wire::Nack nack;
    if (state.gap.fired == kGapTries || !assembly_.ask(nack)) {
      state.gap.due = Clock::time_point::max();
      return;
    }
    std::array<std::byte, wire::kMaxNackBytes> body;
    send_one(wire::Type::kNack, id, std::span<const std::byte>(body).first(encode(nack, body)));
    state.gap.again(now);
  }

  void on_retry(Clock::time_point now, Run& state) {
    if (state.busy) {
      state.busy = false;
      send_first_burst();
      state.retry.start(now, options_.retry);
      return;
    }
    send_fragments(0, 1, [](std::uint32_t) { return true; });
    state.retry.again(now);
  }

  Options options_;
  std::string name_;
  wire::KeyRing keys_;
  UdpSocket socket_;
  std::uint64_t client_id_ = 0;
  std::uint64_t last_id_ = 0;
  wire::Cookie cookie_{};
  std::uint64_t epoch_ = 0;
  std::vector<std::unique_ptr<UdpModel>> models_;

  // The members below are buffers of the current request. They keep their memory between requests.
  wire::Header request_;
  wire::Layout layout_;
  std::span<const std::byte> message_;
  std::vector<std::byte> joined_, received_;
  wire::Assembly assembly_;
};

}  // namespace

Status connect_udp(const HostPort& url, const Options& options, std::unique_ptr<Client>& out) {
  auto client = std::make_unique<UdpClient>();
  if (Status s = client->open(url, options); !s.ok()) return s;
  out = std::move(client);
  return {};
}

}  // namespace millrace::client
