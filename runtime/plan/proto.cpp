#include "runtime/plan/proto.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/json_util.h>

#include <limits>
#include <memory>
#include <stdexcept>

#include "runtime/plan/deployment.hpp"

namespace millrace::runtime::plan {

std::vector<std::byte> to_bytes(const google::protobuf::Message& message) {
  std::string text;
  {
    google::protobuf::io::StringOutputStream stream(&text);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

bool from_bytes(std::span<const std::byte> bytes, google::protobuf::Message& message) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return false;
  const google::protobuf::LogSilencer silence;
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

namespace {

/// Whether all texts of a message are UTF-8. The proto3 parser checks that; the JSON printer would silently alter
/// bytes that are not UTF-8.
bool is_printable(const google::protobuf::Message& message) {
  const std::unique_ptr<google::protobuf::Message> copy(message.New());
  return from_bytes(to_bytes(message), *copy);
}

}  // namespace

std::string to_canonical_json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string one_space;
  const google::protobuf::LogSilencer silence;
  if (!is_printable(message) ||
      !google::protobuf::util::MessageToJsonString(message, &one_space, options).ok())
    throw std::invalid_argument(message.GetTypeName() +
                                " cannot be printed: it holds text that is not UTF-8");

  // protobuf indents by one space. A JSON string contains no raw line end, so the spaces at the start of
  // every line are indentation.
  std::string text;
  text.reserve(one_space.size() + one_space.size() / 4);
  bool at_start = true;
  for (const char c : one_space) {
    if (at_start && c == ' ') text.push_back(' ');
    if (c != ' ') at_start = c == '\n';
    text.push_back(c);
  }
  if (text.empty() || text.back() != '\n') text.push_back('\n');
  return text;
}

Status from_json(std::string_view json, google::protobuf::Message& message, const std::string& what,
                 bool ignore_unknown) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = ignore_unknown;
  const google::protobuf::LogSilencer silence;
  const auto status =
      google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &message, options);
  if (status.ok() && !is_printable(message))
    return Error(ErrorCode::kInvalidInput, what + ": contains text that is not UTF-8");
  if (status.ok()) return {};
  std::string reason(status.message().data(), status.message().size());
  for (char& c : reason)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  if (reason.size() > 400) reason = reason.substr(0, 400) + " …";
  return Error(ErrorCode::kInvalidInput, what + ": not what is expected here: " + reason);
}

Status check_schema(std::uint32_t found, const std::string& what) {
  constexpr std::uint32_t oldest = kSchemaVersion > 1 ? kSchemaVersion - 1 : 1;
  if (found == 0)
    return Error(ErrorCode::kInvalidInput,
                 what + ": schema_version is missing; this is not a file that Millrace wrote");
  if (found > kSchemaVersion)
    return Error(ErrorCode::kUnsupported,
                 what + ": schema_version " + std::to_string(found) + " is newer than this Millrace reads (" +
                     std::to_string(kSchemaVersion) +
                     "); "
                     "use the version of Millrace that wrote the file, or compile the model again");
  if (found < oldest)
    return Error(ErrorCode::kUnsupported, what + ": schema_version " + std::to_string(found) +
                                              " is older than this Millrace reads (" +
                                              std::to_string(oldest) + "); compile the model again");
  return {};
}

}  // namespace millrace::runtime::plan
