#include "server/models/pin.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"
#include "server/models/directory.hpp"

namespace millrace::server::models {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostBytes = 64;
constexpr std::size_t kMostShown = 20;  // length to which an error shortens invalid content

fs::path pin_of(const fs::path& model_folder) {
  return model_folder / "PIN";
}

std::string name_of(const fs::path& model_folder) {
  return "model '" + model_folder.filename().string() + "'";
}

std::string error_text(int code) {
  return std::generic_category().message(code);
}

std::string_view without_space_around(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Parses the content of PIN into `version`. Returns what is wrong with the content, or an empty text.
std::string parse_content(std::string_view text, std::uint64_t& version) {
  const std::string_view number = without_space_around(text);
  if (number.empty()) return "is empty";
  version = parse_version(number);
  if (version != 0) return {};
  const std::string start = printable(number.substr(0, kMostShown));
  const char* const rest = number.size() > kMostShown ? "…" : "";
  return "holds '" + start + rest + "', which is no version's number";
}

/// Reads and checks PIN. Opens the file only once, so that the checks and the content concern the same file. If there
/// is no file, returns an empty text and leaves `version` unchanged.
std::string read_file_of(const fs::path& pin, std::uint64_t& version) {
  // O_NONBLOCK, because opening a FIFO without a writer would block.
  const Descriptor file(::open(pin.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0 && (errno == ENOENT || errno == ENOTDIR)) return {};
  if (file.get() < 0 && errno == ELOOP) return "is a symbolic link, which the server does not follow";
  struct stat is {};
  if (file.get() < 0 || ::fstat(file.get(), &is) != 0) return "cannot be read: " + error_text(errno);
  if (S_ISDIR(is.st_mode)) return "is a folder and not a file";
  if (!S_ISREG(is.st_mode)) return "is no regular file";
  if (static_cast<std::uint64_t>(is.st_size) > kMostBytes)
    return "has " + std::to_string(is.st_size) + " bytes, which is too long for a version number";
  std::array<char, kMostBytes> bytes{};
  const ssize_t length = ::read(file.get(), bytes.data(), bytes.size());
  if (length < 0) return "cannot be read: " + error_text(errno);
  return parse_content({bytes.data(), static_cast<std::size_t>(length)}, version);
}

Error is_a_folder(const fs::path& pin) {
  return Error(ErrorCode::kInvalidInput,
               pin.string() + " is a folder and not a file; remove the folder and its content");
}

}  // namespace

std::string how_to_unpin(const fs::path& model_folder) {
  return "to unpin the model, run 'millrace reload --model " + model_folder.filename().string() +
         " --unpin' or remove " + pin_of(model_folder).string();
}

Pin read_pin(const fs::path& model_folder) {
  const fs::path pin = pin_of(model_folder);
  Pin out;
  const std::string wrong = read_file_of(pin, out.version);
  if (!wrong.empty())
    out.unreadable = name_of(model_folder) + ": " + pin.string() + " " + wrong +
                     ", so no version is loaded; "
                     "write the number of a version into this file, or " +
                     how_to_unpin(model_folder);
  return out;
}

Status check_pin_place(const fs::path& model_folder) {
  const fs::path pin = pin_of(model_folder);
  struct stat file {};
  if (::lstat(pin.c_str(), &file) == 0 && S_ISDIR(file.st_mode)) return is_a_folder(pin);
  if (::access(model_folder.c_str(), W_OK | X_OK) == 0) return {};
  return Error(ErrorCode::kEnvironment,
               name_of(model_folder) + " cannot be pinned: the server may not write " + pin.string() + ": " +
                   error_text(errno) +
                   "; "
                   "grant the server write access, or write the version's number into this file");
}

Status write_pin(const fs::path& model_folder, std::uint64_t version) {
  MILLRACE_TRY(check_pin_place(model_folder));
  const fs::path pin = pin_of(model_folder);
  const std::string content = std::to_string(version) + "\n";
  struct stat file {};
  if (::lstat(pin.c_str(), &file) == 0 && !S_ISREG(file.st_mode)) {
    // write_file_atomically() would follow a link. Write a temporary file and rename it over the link instead.
    const fs::path whole = model_folder / ".PIN.new";
    MILLRACE_TRY(write_file_atomically(whole, content));
    if (::rename(whole.c_str(), pin.c_str()) != 0) {
      const int code = errno;
      ::unlink(whole.c_str());
      return Error(ErrorCode::kEnvironment,
                   pin.string() + " cannot be replaced: " + error_text(code) + "; remove it yourself");
    }
  }
  return write_file_atomically(pin, content);
}

Status remove_pin(const fs::path& model_folder) {
  const fs::path pin = pin_of(model_folder);
  if (::unlink(pin.c_str()) == 0) return {};
  if (errno == ENOENT || errno == ENOTDIR)
    return Error(ErrorCode::kNotFound, name_of(model_folder) + " is not pinned");
  if (errno == EISDIR) return is_a_folder(pin);
  return Error(ErrorCode::kEnvironment, name_of(model_folder) +
                                            " cannot be unpinned: the server cannot remove " + pin.string() +
                                            ": " + error_text(errno) + "; remove it yourself");
}

}  // namespace millrace::server::models
