// Inference from C++ over HTTP (Open Inference Protocol) or UDP (Millrace datagrams), with one small interface.
//
//   std::unique_ptr<millrace::client::Client> client;
//   if (auto s = millrace::client::connect("udp://127.0.0.1:8001", {}, client); !s.ok()) die(s.message);
//   std::vector<std::vector<std::byte>> outputs;
//   auto s = client->infer("lenet5", "", {{image_bytes}}, 5ms, outputs);
//
// Link with `pkg-config millrace-client` or, in CMake, with millrace::client of
// find_package(millrace-client). This header includes only the standard library. No function throws anything
// other than std::bad_alloc.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace millrace::client {

enum class Code {
  kOk,
  kInvalid,      // the request is wrong: URL, sizes of tensors, or options; repeating it will not help
  kNotFound,     // no such model or version
  kBusy,         // the server refused because of load, until the deadline; repeating the request may help
  kDenied,       // the token is missing, unknown, or lacks the scope (HTTP)
  kUntrusted,    // the server's certificate is rejected (https)
  kUnavailable,  // no server answers, or the model is not available now
  kDeadline,     // the deadline passed
  kProtocol,     // the server's answer violates the protocol
  kInternal,     // the server failed
};

struct Status {
  Code code = Code::kOk;
  std::string message;  // text for people; empty if the code is kOk
  bool ok() const { return code == Code::kOk; }
};

struct TensorInfo {
  std::string name;
  std::string datatype;  // Open Inference Protocol: "FP32", "UINT8", …
  std::vector<std::int64_t> shape;
  std::uint64_t bytes() const;  // 0 if the datatype has no fixed size
};

struct ModelInfo {
  std::string name, version;  // over UDP the requested version, over HTTP the answered one
  std::vector<TensorInfo> inputs, outputs;
};

struct Options {
  std::chrono::milliseconds timeout{5000};  // of connecting, and of calls without a timeout of their own

  // The options below apply to HTTP only.
  std::string ca_file;  // PEM file of certificates to trust over https; empty: the system's
  bool verify = true;   // false: accept any certificate over https
  std::string token;    // sent as "Authorization: Bearer" unless empty

  // The options below apply to UDP only.
  // Payload bytes per datagram, 256 to 65,000. The network path must carry such datagrams without IP fragmentation.
  std::uint16_t fragment_bytes = 1200;
  std::uint8_t key_id = 0;     // 0: datagrams carry no authentication tags
  std::vector<std::byte> key;  // at least 16 bytes if key_id is not 0
  // Time to wait before a message is repeated, at least 100 µs. Each repetition doubles the time, up to 80 ms.
  std::chrono::microseconds retry{10000};
};

using Input = std::span<const std::byte>;

/// A connection to one server. One thread at a time may use a client. Different clients are independent of each other.
class Client {
 public:
  virtual ~Client() = default;

  /// Succeeds if the server accepts requests now. Returns kUnavailable if it does not, or if no server answers.
  virtual Status ready() = 0;

  /// Returns the model's inputs and outputs. The client asks the server once and remembers the answer until the server
  /// replaces the model. An empty version means the version that is served.
  virtual Status model(const std::string& name, const std::string& version, ModelInfo& out) = 0;

  /// Runs one inference. `inputs` and `outputs` hold the model's tensors in the model's order. Each tensor is
  /// row-major and little-endian and has exactly its size. `outputs` keeps its memory from call to call; after a
  /// failure its content is unspecified. Blocks for at most `timeout`, which is also the server's deadline, and then
  /// returns kDeadline. Over UDP, the server computes a request at most once unless it restarts meanwhile. If the
  /// server has replaced the model, the client uses the new model if its tensor sizes are the same.
  virtual Status infer(const std::string& model, const std::string& version, std::span<const Input> inputs,
                       std::chrono::microseconds timeout, std::vector<std::vector<std::byte>>& outputs) = 0;
  Status infer(const std::string& model, const std::string& version, std::initializer_list<Input> inputs,
               std::chrono::microseconds timeout, std::vector<std::vector<std::byte>>& outputs) {
    return infer(model, version, std::span<const Input>(inputs.begin(), inputs.size()), timeout, outputs);
  }
};

/// Connects to a server. `url` is "http://HOST:PORT", "https://HOST:PORT", "unix:PATH" (HTTP through a Unix socket) or
/// "udp://HOST:PORT"; IPv6 hosts are in brackets. Returns kUnavailable if the server does not answer.
Status connect(const std::string& url, const Options& options, std::unique_ptr<Client>& out);

}  // namespace millrace::client
