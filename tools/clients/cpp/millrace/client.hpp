// Inference from C++: over HTTP (Open Inference Protocol) or Millrace datagrams, behind one small interface.
//
//   std::unique_ptr<millrace::client::Client> client;
//   if (auto s = millrace::client::connect("udp://127.0.0.1:8001", {}, client); !s.ok()) die(s.message);
//   std::vector<std::vector<std::byte>> outputs;
//   auto s = client->infer("lenet5", "", {{image_bytes}}, 5ms, outputs);
//
// Link with `pkg-config millrace-client` or, in CMake, with millrace::client of
// find_package(millrace-client). Nothing but the standard library is included here; nothing throws but
// std::bad_alloc.
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
  kInvalid,      // what was asked for is wrong: URL, model's sizes, options; asking again will not help
  kNotFound,     // no such model or version
  kBusy,         // the server refused because of load, until the deadline; asking again may help
  kDenied,       // the token is missing, unknown, or does not reach (HTTP)
  kUntrusted,    // the server's certificate is not accepted (https)
  kUnavailable,  // nothing answers, or the model cannot answer now
  kDeadline,     // the deadline passed
  kProtocol,     // the server's answer makes no sense
  kInternal,     // the server failed
};

struct Status {
  Code code = Code::kOk;
  std::string message;  // for people; empty with kOk
  bool ok() const { return code == Code::kOk; }
};

struct TensorInfo {
  std::string name;
  std::string datatype;  // Open Inference Protocol: "FP32", "UINT8", …
  std::vector<std::int64_t> shape;
  std::uint64_t bytes() const;  // 0 where the datatype has no fixed size
};

struct ModelInfo {
  std::string name, version;  // version as asked for over UDP (may be empty), as answered over HTTP
  std::vector<TensorInfo> inputs, outputs;
};

struct Options {
  std::chrono::milliseconds timeout{5000};  // of connecting, and of everything without a timeout of its own

  // HTTP only:
  std::string ca_file;  // PEM, whom to trust over https; empty: whom the system trusts
  bool verify = true;   // false: over https whoever answers is trusted
  std::string token;    // sent as "Authorization: Bearer", where not empty

  // UDP only:
  // payload of a datagram, 256 to 65,000: what the path carries unfragmented
  std::uint16_t fragment_bytes = 1200;
  std::uint8_t key_id = 0;     // 0: no tags
  std::vector<std::byte> key;  // 16 bytes or more where key_id is not 0
  // first wait for an answer, 100 µs or more; doubles up to 80 ms, and goes on until the deadline
  std::chrono::microseconds retry{10000};
};

using Input = std::span<const std::byte>;

/// For one thread at a time; clients are independent of each other.
class Client {
 public:
  virtual ~Client() = default;

  /// Whether the server takes requests now. kUnavailable where it does not, or nothing answers.
  virtual Status ready() = 0;

  /// What the model takes and gives; asked once and remembered until the server has replaced the model. Empty
  /// version: the one that serves.
  virtual Status model(const std::string& name, const std::string& version, ModelInfo& out) = 0;

  /// One inference. `inputs` and `outputs` are the model's tensors in the model's order, row-major
  /// little-endian, exactly their size; `outputs` keeps its memory from call to call. Blocks for at most
  /// `timeout`, which is the server's deadline too; kDeadline where no answer came within it. Over UDP it is
  /// computed at most once, unless the server restarts meanwhile; where the model has been replaced, the new
  /// one is looked up and used if its sizes are the same. On failure `outputs` is unspecified.
  virtual Status infer(const std::string& model, const std::string& version, std::span<const Input> inputs,
                       std::chrono::microseconds timeout, std::vector<std::vector<std::byte>>& outputs) = 0;
  Status infer(const std::string& model, const std::string& version, std::initializer_list<Input> inputs,
               std::chrono::microseconds timeout, std::vector<std::vector<std::byte>>& outputs) {
    return infer(model, version, std::span<const Input>(inputs.begin(), inputs.size()), timeout, outputs);
  }
};

/// `url`: "http://HOST:PORT", "https://HOST:PORT", "unix:PATH" (HTTP through a Unix socket) or
/// "udp://HOST:PORT"; IPv6 hosts in brackets. Reaches the server once: kUnavailable where nothing answers.
Status connect(const std::string& url, const Options& options, std::unique_ptr<Client>& out);

}  // namespace millrace::client
