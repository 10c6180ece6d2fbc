// Between the structs of this folder and its generated protobuf classes. Private to runtime/plan: the classes
// are only named here, so that protobuf's headers stay in the .cpp files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace google::protobuf {
class Message;
}
namespace millrace::plan {
class ProgramFile;
}  // namespace millrace::plan

namespace millrace::runtime::plan {

namespace proto = ::millrace::plan;

void to_proto(const kernels::Program& program, proto::ProgramFile& out);
/// Indices, enumerations, narrow fields and blobs are checked here; the meaning is kernels::validate()'s,
/// called last.
Result<kernels::Program> from_proto(const proto::ProgramFile& in);

/// Field numbers ascending, no maps: equal messages give equal bytes.
std::vector<std::byte> to_bytes(const google::protobuf::Message& message);
/// False where the bytes are not such a message. Silent: protobuf's own log is not ours.
bool from_bytes(std::span<const std::byte> bytes, google::protobuf::Message& message);

/// Every field printed under its .proto name, two spaces a level, a line end after the last. Throws
/// std::invalid_argument where a text is not UTF-8: readers refuse such a file, so it is our bug.
std::string to_canonical_json(const google::protobuf::Message& message);
/// Unknown fields are refused by name unless `ignore_unknown`; `what` opens the error ("deployment.json").
Status from_json(std::string_view json, google::protobuf::Message& message, const std::string& what,
                 bool ignore_unknown = false);

/// A version 0 (none), older than the previous or newer than ours is refused; `what` names the file.
Status check_schema(std::uint32_t found, const std::string& what);

}  // namespace millrace::runtime::plan
