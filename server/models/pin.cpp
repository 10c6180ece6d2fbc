#include "server/models/pin.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"
#include "server/models/directory.hpp"

namespace millrace::server::models {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostBytes = 64;
constexpr std::size_t kMostShown = 20;  // characters of a content that is no number

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

/// Why the file names no version; its number in `version` where it names one.
std::string judge(const fs::path& pin, const struct stat& file, std::uint64_t& version) {
  if (S_ISLNK(file.st_mode)) return "is a symbolic link, which is not followed";
  if (S_ISDIR(file.st_mode)) return "is a folder and not a file";
  if (!S_ISREG(file.st_mode)) return "is no regular file";
  if (static_cast<std::uint64_t>(file.st_size) > kMostBytes)
    return "has " + std::to_string(file.st_size) + " bytes, and a version's number needs few";
  const auto text = read_text_file(pin, kMostBytes);
  if (!text.ok()) return "cannot be read: " + text.error().message();
  const std::string_view number = without_space_around(*text);
  if (number.empty()) return "is empty";
  version = parse_version(number);
  if (version != 0) return {};
  return "holds '" + printable(number.substr(0, kMostShown)) + (number.size() > kMostShown ? "…" : "") +
         "', which is no version's number";
}

Error folder_in_the_way(const fs::path& pin) {
  return Error(ErrorCode::kInvalidInput,
               pin.string() + " is a folder and not a file; remove it with all that is in it");
}

}  // namespace

std::string how_to_unpin(const fs::path& model_folder) {
  return "to unpin the model, run 'millrace reload --model " + model_folder.filename().string() +
         " --unpin' or remove " + pin_of(model_folder).string();
}

Pin read_pin(const fs::path& model_folder) {
  const fs::path pin = pin_of(model_folder);
  struct stat file {};
  Pin out;
  std::string wrong;
  if (::lstat(pin.c_str(), &file) == 0)
    wrong = judge(pin, file, out.version);
  else if (errno != ENOENT && errno != ENOTDIR)
    wrong = "cannot be read: " + error_text(errno);
  if (!wrong.empty())
    out.unreadable = name_of(model_folder) + ": " + pin.string() + " " + wrong +
                     ", so no version is loaded; write the number of a version into it, or " +
                     how_to_unpin(model_folder);
  return out;
}

Status check_pin_place(const fs::path& model_folder) {
  const fs::path pin = pin_of(model_folder);
  struct stat file {};
  if (::lstat(pin.c_str(), &file) == 0 && S_ISDIR(file.st_mode)) return folder_in_the_way(pin);
  if (::access(model_folder.c_str(), W_OK | X_OK) == 0) return {};
  return Error(ErrorCode::kEnvironment,
               name_of(model_folder) + " cannot be pinned: the server may not write " + pin.string() + ": " +
                   error_text(errno) + "; give it the right to, or write the version's number there");
}

Status write_pin(const fs::path& model_folder, std::uint64_t version) {
  MILLRACE_TRY(check_pin_place(model_folder));
  const fs::path pin = pin_of(model_folder);
  struct stat file {};
  if (::lstat(pin.c_str(), &file) == 0 && !S_ISREG(file.st_mode)) ::unlink(pin.c_str());
  return write_file_atomically(pin, std::to_string(version) + "\n");
}

Status remove_pin(const fs::path& model_folder) {
  const fs::path pin = pin_of(model_folder);
  if (::unlink(pin.c_str()) == 0) return {};
  if (errno == ENOENT || errno == ENOTDIR)
    return Error(ErrorCode::kNotFound, name_of(model_folder) + " is not pinned");
  if (errno == EISDIR) return folder_in_the_way(pin);
  return Error(ErrorCode::kEnvironment, name_of(model_folder) +
                                            " cannot be unpinned: the server cannot remove " + pin.string() +
                                            ": " + error_text(errno) + "; remove it yourself");
}

}  // namespace millrace::server::models
