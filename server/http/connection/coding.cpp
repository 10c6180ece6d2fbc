#include "server/http/connection/coding.hpp"

#include <zlib.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <charconv>
#include <limits>
#include <memory>
#include <new>

namespace millrace::server::http {
namespace {

using boost::beast::iequals;

constexpr int kGzipWindow = 15 + 16, kZlibWindow = 15, kBareWindow = -15;  // arguments of inflateInit2()
constexpr std::size_t kFirstOutput = 16'384;
constexpr int kLevel = 1;  // the fastest level, because an I/O thread compresses and other connections wait

bool is_gzip(boost::beast::string_view name) {
  return iequals(name, "gzip") || iequals(name, "x-gzip");
}

uInt piece(std::size_t bytes) {
  return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

/// If the stream has consumed all its input, gives it the next bytes of `input` and removes them from `input`.
void feed(z_stream& stream, std::span<const std::byte>& input) {
  if (stream.avail_in != 0) return;
  // zlib does not write to next_in, so the const_cast is safe.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
  stream.avail_in = piece(input.size());
  input = input.subspan(stream.avail_in);
}

/// Calls inflate() or deflate() once. `out` has `made` bytes already; the result is written after them and counted.
template <class Function, class Out>
int step(Function function, z_stream& stream, int flush, Out& out, std::size_t& made) {
  stream.next_out = reinterpret_cast<Bytef*>(out.data() + made);
  const uInt room = stream.avail_out = piece(out.size() - made);
  const int code = function(&stream, flush);
  made += room - stream.avail_out;
  return code;
}

/// Whether the body begins with the two header bytes of zlib's format (RFC 1950).
bool is_zlib(std::span<const std::byte> body) {
  if (body.size() < 2) return false;
  const auto method = std::to_integer<unsigned>(body[0]), flags = std::to_integer<unsigned>(body[1]);
  return (method & 15U) == 8 && (method >> 4U) <= 7 && (method * 256 + flags) % 31 == 0;
}

}  // namespace

std::optional<Coding> parse_coding(std::string_view text) {
  const boost::beast::string_view name(text.data(), text.size());
  if (name.empty() || iequals(name, "identity")) return Coding::kIdentity;
  if (is_gzip(name)) return Coding::kGzip;
  if (iequals(name, "deflate")) return Coding::kDeflate;
  return std::nullopt;
}

std::string_view to_string(Coding coding) {
  static constexpr std::string_view kNames[] = {"identity", "gzip", "deflate"};
  return kNames[static_cast<std::size_t>(coding)];
}

Result<std::vector<std::byte>> decoded(Coding coding, std::span<const std::byte> body, std::uint64_t most) {
  if (coding == Coding::kIdentity) return std::vector<std::byte>(body.begin(), body.end());
  const auto bad = [&](const std::string& what, ErrorCode code = ErrorCode::kInvalidInput) {
    return Error(code, "the " + std::string(to_string(coding)) + " body " + what);
  };
  const bool gzip = coding == Coding::kGzip;
  z_stream stream{};
  if (::inflateInit2(&stream, gzip ? kGzipWindow : is_zlib(body) ? kZlibWindow : kBareWindow) != Z_OK)
    throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, ::inflateEnd);
  std::vector<std::byte> out;
  std::size_t made = 0;
  while (true) {
    feed(stream, body);
    // Make room for one byte more than allowed, to detect a body that is too long.
    if (made == out.size()) out.resize(std::min<std::uint64_t>(std::max(kFirstOutput, 2 * made), most) + 1);
    const int code = step(::inflate, stream, Z_NO_FLUSH, out, made);
    if (made > most)
      return bad("holds more than the limit of " + std::to_string(most) + " bytes",
                 ErrorCode::kResourceExhausted);
    const bool all_used = stream.avail_in == 0 && body.empty();
    if (code == Z_STREAM_END) {
      if (all_used) break;
      // gzip files may hold several members (RFC 1952, 2.2).
      if (!gzip || ::inflateReset(&stream) != Z_OK) return bad("is damaged");
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return bad("is damaged");
    } else if (all_used && stream.avail_out != 0) {
      return bad("is cut short");
    }
  }
  out.resize(made);
  return out;
}

Coding preferred_coding(std::string_view accept) {
  double best = 0;
  Coding out = Coding::kIdentity;
  for (const auto& [name, parameters] : boost::beast::http::ext_list({accept.data(), accept.size()})) {
    const bool gzip = is_gzip(name) || name == "*";
    if (!gzip && !iequals(name, "deflate")) continue;
    double weight = 1;
    for (const auto& [key, value] : parameters)
      if (iequals(key, "q") &&
          std::from_chars(value.data(), value.data() + value.size(), weight).ec != std::errc())
        weight = 0;
    if (weight > best || (weight == best && weight > 0 && gzip)) {
      best = weight;
      out = gzip ? Coding::kGzip : Coding::kDeflate;
    }
  }
  return out;
}

std::string encoded(Coding coding, std::span<const std::span<const std::byte>> parts) {
  z_stream stream{};
  if (::deflateInit2(&stream, kLevel, Z_DEFLATED, coding == Coding::kGzip ? kGzipWindow : kZlibWindow, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, ::deflateEnd);
  std::string out;
  std::size_t made = 0;
  const auto run = [&](int flush) {
    int code = Z_OK;
    do {
      if (made == out.size()) out.resize(std::max(kFirstOutput, 2 * made));
      code = step(::deflate, stream, flush, out, made);
    } while (code != Z_STREAM_END && (flush == Z_FINISH || stream.avail_in != 0));
  };
  for (std::span<const std::byte> part : parts)
    while (!part.empty()) {
      feed(stream, part);
      run(Z_NO_FLUSH);
    }
  run(Z_FINISH);
  out.resize(made);
  return out;
}

}  // namespace millrace::server::http
