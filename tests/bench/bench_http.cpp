// Compares Millrace's HTTP server, with a pipeline that does nothing, with a bare Beast echo server. One client
// measures both servers alternately in one run, with the same request. Client and server are pinned to one processor or
// to two. Prints JSON.
//
//   bench_http [--seconds S] [--rounds N] [--bytes B]
//   bench_http --serve millrace|echo [--bytes B]     only that server, until standard input ends; for a profiler
//
// The echo server reads a whole request with Beast's parser and sends the body back. No Beast server can do less.
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/vector_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/bench/http_bench.hpp"

namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace load = millrace::load;
using namespace millrace::bench;
using boost::system::error_code;
using net::ip::tcp;

class EchoSession : public std::enable_shared_from_this<EchoSession> {
 public:
  explicit EchoSession(tcp::socket socket) : socket_(std::move(socket)) {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    buffer_.reserve(65'536);  // a single read then suffices for a whole request
  }
  void read() {
    request_ = {};
    http::async_read(socket_, buffer_, request_, [self = shared_from_this()](error_code error, std::size_t) {
      if (!error) self->write();
    });
  }

 private:
  void write() {
    response_ = {http::status::ok, request_.version()};
    response_.set(http::field::content_type, "application/octet-stream");
    response_.body() = std::move(request_.body());
    response_.prepare_payload();
    http::async_write(socket_, response_, [self = shared_from_this()](error_code error, std::size_t) {
      if (!error) self->read();
    });
  }

  tcp::socket socket_;
  beast::flat_buffer buffer_;
  http::request<http::vector_body<unsigned char>> request_;
  http::response<http::vector_body<unsigned char>> response_;
};

class Echo final : public Target {
 public:
  Echo() : acceptor_(context_, {net::ip::make_address("127.0.0.1"), 0}) {
    accept();
    thread_ = std::jthread([this] { context_.run(); });
  }
  ~Echo() override {
    context_.stop();
    thread_.join();
  }
  load::Address address() const override {
    return {{millrace::clients::Url::Scheme::kHttp, "127.0.0.1",
             std::to_string(acceptor_.local_endpoint().port())}};
  }

 private:
  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (error) return;
      std::make_shared<EchoSession>(std::move(socket))->read();
      accept();
    });
  }

  net::io_context context_{1};
  tcp::acceptor acceptor_;
  std::jthread thread_;
};

struct Options {
  double seconds = 1;
  int rounds = 5;
  std::uint32_t bytes = 3136;  // a picture of 28 x 28 in float32
  std::string serve;
};

void report(const char* placement, int server_cpu, std::uint32_t connections, const Options& options,
            bool first) {
  pin(server_cpu);
  const auto null = std::make_shared<NullPipeline>(options.bytes);
  const Millrace ours(null);
  const Echo echo;
  pin(0);
  const std::string to_ours = request_for(ours.address(), null->deployment().model),
                    to_echo = request_for(echo.address(), null->deployment().model);
  Samples a, b;
  for (int round = 0; round < options.rounds; ++round) {
    // Measure Millrace first in even rounds and the echo server first in odd rounds.
    if (round % 2 == 0) a.push_back(measure(ours, to_ours, connections, options.seconds));
    b.push_back(measure(echo, to_echo, connections, options.seconds));
    if (round % 2 != 0) a.push_back(measure(ours, to_ours, connections, options.seconds));
  }
  const auto side = [](const char* name, const Samples& s) {
    std::printf("   \"%s\": {\"p50_us\": %.2f, \"p99_us\": %.2f, \"requests_per_second\": %.0f},\n", name,
                median(s, &Sample::p50), median(s, &Sample::p99), median(s, &Sample::per_second));
  };
  std::printf(
      "%s  {\"placement\": \"%s\", \"connections\": %u, \"input_bytes\": %u, \"request_bytes\": %zu,\n",
      first ? "" : ",\n", placement, connections, options.bytes, to_ours.size());
  side("millrace", a);
  side("echo", b);
  std::printf("   \"ratio\": {\"p50\": %.3f, \"p99\": %.3f, \"requests_per_second\": %.3f}}",
              ratio(a, b, &Sample::p50), ratio(a, b, &Sample::p99), ratio(a, b, &Sample::per_second));
  std::fflush(stdout);
}

int serve(const Options& options) {
  std::unique_ptr<Target> target;
  if (options.serve == "echo")
    target = std::make_unique<Echo>();
  else if (options.serve == "millrace")
    target = std::make_unique<Millrace>(std::make_shared<NullPipeline>(options.bytes));
  else
    fail("--serve takes millrace or echo");
  std::printf("listening http %s\n", millrace::clients::host_header(target->address().url).c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc)
      fail("usage: bench_http [--seconds S] [--rounds N] [--bytes B] [--serve millrace|echo]");
    if (option == "--seconds")
      options.seconds = std::max(0.01, std::atof(argv[i + 1]));
    else if (option == "--rounds")
      options.rounds = std::max(1, std::atoi(argv[i + 1]));
    else if (option == "--bytes")
      options.bytes = static_cast<std::uint32_t>(std::max(1, std::atoi(argv[i + 1])));
    else if (option == "--serve")
      options.serve = argv[i + 1];
    else
      fail("unknown option " + option);
  }
  millrace::log::configure(millrace::log::Level::kWarning, false);
  if (!options.serve.empty()) return serve(options);
  std::printf("{\"benchmark\": \"http\", \"rounds\": %d, \"seconds\": %g, \"results\": [\n", options.rounds,
              options.seconds);
  bool first = true;
  for (const bool same : {true, false}) {
    if (!same && std::thread::hardware_concurrency() < 2) continue;
    for (const std::uint32_t connections : {1U, 32U}) {
      report(same ? "same-core" : "cross-core", same ? 0 : 1, connections, options, first);
      first = false;
    }
  }
  std::printf("\n]}\n");
}
