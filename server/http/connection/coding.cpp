#include "server/http/connection/coding.hpp"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <new>

namespace millrace::server::http {
namespace {

constexpr int kGzipWindow = 15 + 16, kZlibWindow = 15, kBareWindow = -15;  // as inflateInit2() takes them
constexpr std::size_t kFirstChunk = 16'384;
constexpr int kLevel = 1;  // the fastest: an answer is sent once, by the thread that serves others too

bool same(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(), [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? static_cast<char>(x - 'A' + 'a') : x) == y;
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

uInt piece(std::size_t bytes) {
  return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

Bytef* input_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));  // zlib does not write there
}

class Inflater {
 public:
  explicit Inflater(int window) {
    if (::inflateInit2(&stream_, window) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Returns Z_STREAM_END if all of the body was used, Z_DATA_ERROR if it is damaged, Z_BUF_ERROR if it is cut
  /// short, Z_MEM_ERROR if it holds more than `most` bytes.
  int run(std::span<const std::byte> body, std::uint64_t most, bool members, std::vector<std::byte>& out) {
    while (true) {
      if (stream_.avail_in == 0) feed(body);
      if (made_ == out.size()) {
        if (made_ > most) return Z_MEM_ERROR;
        // One byte more than allowed, to see whether there is more.
        out.resize(std::min<std::uint64_t>(std::max<std::uint64_t>(kFirstChunk, 2 * made_), most + 1));
      }
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + made_);
      stream_.avail_out = piece(out.size() - made_);
      const uInt room = stream_.avail_out;
      const int code = ::inflate(&stream_, Z_NO_FLUSH);
      made_ += room - stream_.avail_out;
      if (made_ > most) return Z_MEM_ERROR;
      if (code == Z_STREAM_END) {
        if (stream_.avail_in == 0 && body.empty()) {
          out.resize(made_);
          return Z_STREAM_END;
        }
        // gzip files may hold several members (RFC 1952, 2.2).
        if (!members || ::inflateReset(&stream_) != Z_OK) return Z_DATA_ERROR;
        continue;
      }
      if (code == Z_BUF_ERROR && stream_.avail_out != 0) return Z_BUF_ERROR;
      if (code != Z_OK && code != Z_BUF_ERROR) return Z_DATA_ERROR;
      if (stream_.avail_in == 0 && body.empty() && stream_.avail_out != 0) return Z_BUF_ERROR;
    }
  }

 private:
  void feed(std::span<const std::byte>& body) {
    stream_.next_in = input_of(body);
    stream_.avail_in = piece(body.size());
    body = body.subspan(stream_.avail_in);
  }

  z_stream stream_{};
  std::size_t made_ = 0;
};

/// Whether the body begins with the two bytes of RFC 1950.
bool is_zlib(std::span<const std::byte> body) {
  if (body.size() < 2) return false;
  const auto method = std::to_integer<unsigned>(body[0]), flags = std::to_integer<unsigned>(body[1]);
  return (method & 15U) == 8 && (method >> 4U) <= 7 && (method * 256 + flags) % 31 == 0;
}

}  // namespace

std::optional<Coding> parse_coding(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || same(text, "identity")) return Coding::kIdentity;
  if (same(text, "gzip") || same(text, "x-gzip")) return Coding::kGzip;
  if (same(text, "deflate")) return Coding::kDeflate;
  return std::nullopt;
}

std::string_view to_string(Coding coding) {
  switch (coding) {
    case Coding::kGzip:
      return "gzip";
    case Coding::kDeflate:
      return "deflate";
    case Coding::kIdentity:
      break;
  }
  return "identity";
}

Result<std::vector<std::byte>> decoded(Coding coding, std::span<const std::byte> body, std::uint64_t most) {
  std::vector<std::byte> out;
  if (coding == Coding::kIdentity) {
    out.assign(body.begin(), body.end());
    return out;
  }
  const std::string what = "the " + std::string(to_string(coding)) + " body ";
  const bool gzip = coding == Coding::kGzip;
  const int window = gzip ? kGzipWindow : is_zlib(body) ? kZlibWindow : kBareWindow;
  switch (Inflater(window).run(body, std::min<std::uint64_t>(most, out.max_size() / 4), gzip, out)) {
    case Z_STREAM_END:
      return out;
    case Z_MEM_ERROR:
      return Error(ErrorCode::kResourceExhausted,
                   what + "holds more than the limit of " + std::to_string(most) + " bytes");
    case Z_BUF_ERROR:
      return Error(ErrorCode::kInvalidInput, what + "is cut short");
    default:
      return Error(ErrorCode::kInvalidInput, what + "is damaged");
  }
}

Coding preferred_coding(std::string_view accept) {
  double best = 0;
  Coding out = Coding::kIdentity;
  const auto consider = [&](Coding coding, double weight) {
    if (weight > best || (weight == best && weight > 0 && coding == Coding::kGzip)) {
      best = weight;
      out = coding;
    }
  };
  while (!accept.empty()) {
    const auto comma = std::min(accept.find(','), accept.size());
    std::string_view entry = accept.substr(0, comma);
    accept.remove_prefix(std::min(comma + 1, accept.size()));
    const auto semicolon = std::min(entry.find(';'), entry.size());
    const std::string_view name = trimmed(entry.substr(0, semicolon));
    double weight = 1;
    entry = trimmed(entry.substr(std::min(semicolon + 1, entry.size())));
    if (entry.size() > 2 && same(entry.substr(0, 2), "q=")) {
      entry.remove_prefix(2);
      if (std::from_chars(entry.data(), entry.data() + entry.size(), weight).ec != std::errc()) weight = 0;
    }
    if (same(name, "gzip") || same(name, "x-gzip") || name == "*") consider(Coding::kGzip, weight);
    if (same(name, "deflate")) consider(Coding::kDeflate, weight);
  }
  return out;
}

std::string encoded(Coding coding, std::span<const std::span<const std::byte>> parts) {
  z_stream stream{};
  if (::deflateInit2(&stream, kLevel, Z_DEFLATED, coding == Coding::kGzip ? kGzipWindow : kZlibWindow, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  struct End {
    z_stream& stream;
    ~End() { ::deflateEnd(&stream); }
  } const end{stream};
  std::string out;
  std::size_t made = 0;
  const auto run = [&](int flush) {
    while (true) {
      if (made == out.size()) out.resize(std::max(kFirstChunk, 2 * made));
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + made);
      stream.avail_out = piece(out.size() - made);
      const uInt room = stream.avail_out;
      const int code = ::deflate(&stream, flush);
      made += room - stream.avail_out;
      if (code == Z_STREAM_END || (flush == Z_NO_FLUSH && stream.avail_in == 0)) return;
    }
  };
  for (std::span<const std::byte> part : parts)
    while (!part.empty()) {
      stream.next_in = input_of(part);
      stream.avail_in = piece(part.size());
      part = part.subspan(stream.avail_in);
      run(Z_NO_FLUSH);
    }
  run(Z_FINISH);
  out.resize(made);
  return out;
}

}  // namespace millrace::server::http
