// Converts the structs of this folder to protobuf messages and back. Each struct lists its fields once, in a function
// `fields(Fields&, Struct&)`, in the order in which the .proto file declares them. Private to runtime/plan.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/reflection.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::plan {
class ProgramFile;
}  // namespace millrace::plan

namespace millrace::runtime::plan {

namespace proto = ::millrace::plan;

void to_proto(const kernels::Program& program, proto::ProgramFile& out);
/// Converts a program. This function checks indices, enumerations, narrow fields and blobs; kernels::validate(), which
/// it calls last, checks that their meaning is valid.
Result<kernels::Program> from_proto(const proto::ProgramFile& in);

/// Serialises a message in the order of field numbers. Messages contain no maps, so equal messages give equal bytes.
std::vector<std::byte> to_bytes(const google::protobuf::Message& message);
/// Parses a message. Returns false if the bytes are not such a message. Does not let protobuf log errors.
bool from_bytes(std::span<const std::byte> bytes, google::protobuf::Message& message);

/// Prints every field under its .proto name, indented by two spaces, with a line end after the last line. Throws
/// std::invalid_argument if a text is not UTF-8. That would be a bug, because readers refuse such a file.
std::string to_canonical_json(const google::protobuf::Message& message);
/// Parses JSON. Refuses unknown fields unless `ignore_unknown` is true. Errors begin with `what` ("deployment.json").
Status from_json(std::string_view json, google::protobuf::Message& message, const std::string& what,
                 bool ignore_unknown = false);

/// Refuses a schema version that is 0, older than the previous one or too new. `what` names the file.
Status check_schema(std::uint32_t found, const std::string& what);

class Fields;
void fields(Fields& io, kernels::ElementType& type);  // in program_proto.cpp

class Fields {
 public:
  using Message = google::protobuf::Message;

  /// Makes an object that reads from `message`. Errors have the code `code`; their text calls the message `where`.
  Fields(const Message& message, std::string where, ErrorCode code)
      : in_(message), where_(std::move(where)), code_(code) {}
  /// Makes an object that writes to `message`.
  explicit Fields(Message& message) : in_(message), out_(&message) {}

  bool reads() const { return out_ == nullptr; }
  /// Returns the first error of a read.
  const Status& status() const { return *status_; }
  void fail(const std::string& why) {
    if (status_->ok()) *status_ = Error(code_, where_ + ": " + why);
  }

  /// Reads the message's next fields into `values`, or writes them from `values`.
  template <class... T>
  void operator()(T&... values) {
    (transfer(next(), values), ...);
  }

  /// Skips the message's next field, because the C++ struct has no such member.
  void skip([[maybe_unused]] std::string_view name) {
    [[maybe_unused]] const Field* const skipped = next();
    assert(skipped->name() == name);
  }

  /// Transfers a oneof that stands for a variant. One field of the oneof, `former_name`, is an older form of the
  /// value; the other fields are in the order of the variant's alternatives. When writing: if `former` is set, writes
  /// it as the field `former_name` and ignores `value`. When reading: if the message has the field `former_name`,
  /// reads it into `former` and leaves `value` alone.
  template <class Former, class... T>
  void one_of(std::variant<T...>& value, std::string_view former_name, std::optional<Former>& former) {
    const auto& group = *next()->containing_oneof();
    next_ += group.field_count() - 1;
    const Field* const old = in_.GetDescriptor()->FindFieldByName(std::string(former_name));
    const Field* field = reads() ? reflection().GetOneofFieldDescriptor(in_, &group) : nullptr;
    if (reads() && field == nullptr)
      return fail(group.name() + " is missing, or has a value that this version of Millrace does not know");
    if (reads() ? field == old : former.has_value()) {
      if (reads()) former.emplace();
      return transfer(old, *former);
    }
    const int skipped = old->index_in_oneof();
    if (reads()) {
      const int index = field->index_in_oneof();
      set_alternative(value, static_cast<std::size_t>(index < skipped ? index : index - 1),
                      std::index_sequence_for<T...>());
    } else {
      const auto index = static_cast<int>(value.index());
      field = group.field(index < skipped ? index : index + 1);
    }
    std::visit([&](auto& held) { transfer(field, held); }, value);
  }

  /// Reads or writes a field. The field is left out of the message if its value is `absent`.
  template <class T>
  void unless(const T& absent, T& value) {
    const Field* const field = next();
    if (reads() ? reflection().HasField(in_, field) : value != absent) transfer(field, value);
  }

 private:
  using Field = google::protobuf::FieldDescriptor;

  Fields(const Message& in, Message* out, const Fields& parent, std::string where)
      : in_(in), out_(out), where_(std::move(where)), code_(parent.code_), status_(parent.status_) {}

  const google::protobuf::Reflection& reflection() const { return *in_.GetReflection(); }
  const Field* next() { return in_.GetDescriptor()->field(next_++); }

  template <class T>
  void transfer(const Field* field, T& value) {
    if constexpr (std::is_enum_v<T>) {
      choice(field, value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      scalar(field, value);
    } else {
      transfer_all(child(field), value);
    }
  }

  template <class T>
  void transfer(const Field* field, std::vector<T>& values) {
    if constexpr (std::is_arithmetic_v<T>) return numbers(field, values);
    if (reads()) values.resize(static_cast<std::size_t>(reflection().FieldSize(in_, field)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, std::string>) {
        if (reads())
          values[i] = reflection().GetRepeatedString(in_, field, static_cast<int>(i));
        else
          reflection().AddString(out_, field, values[i]);
      } else if constexpr (!std::is_arithmetic_v<T>) {
        transfer_all(element(field, static_cast<int>(i)), values[i]);
      }
    }
  }

  template <class T>
  void transfer(const Field* field, std::optional<T>& value) {
    if (reads() && reflection().HasField(in_, field)) value.emplace();
    if (value) transfer(field, *value);
  }

  template <class T>
  static void transfer_all(Fields nested, T& value) {
    fields(nested, value);
    assert(nested.next_ == nested.in_.GetDescriptor()->field_count());
  }

  template <class Variant, std::size_t... I>
  static void set_alternative(Variant& value, std::size_t index, std::index_sequence<I...>) {
    static_cast<void>(((index == I && (value.template emplace<I>(), true)) || ...));
  }

  Fields child(const Field* field) {
    if (reads()) return {reflection().GetMessage(in_, field), nullptr, *this, where_ + "." + field->name()};
    Message* const out = reflection().MutableMessage(out_, field);
    return {*out, out, *this, ""};
  }

  /// Returns an object for one element of a repeated message field. Errors call the element by its `name`, if it has
  /// one: "partitions 'p0'".
  Fields element(const Field* field, int index) {
    if (!reads()) {
      Message* const out = reflection().AddMessage(out_, field);
      return {*out, out, *this, ""};
    }
    const Message& in = reflection().GetRepeatedMessage(in_, field, index);
    const Field* const name = in.GetDescriptor()->FindFieldByName("name");
    const std::string called =
        name == nullptr ? std::to_string(index + 1) : "'" + in.GetReflection()->GetString(in, name) + "'";
    return {in, nullptr, *this, where_ + ": " + field->name() + " " + called};
  }

  /// Reads or writes an enumeration. The C++ values count from the first protobuf value that is not UNSPECIFIED.
  template <class T>
  void choice(const Field* field, T& value) {
    const auto& type = *field->enum_type();
    const int first = type.value(0)->name().ends_with("UNSPECIFIED") ? 1 : 0;
    if (!reads()) return reflection().SetEnumValue(out_, field, static_cast<int>(value) + first);
    const int number = reflection().GetEnumValue(in_, field);
    if (number < first || type.FindValueByNumber(number) == nullptr)
      return fail("unknown or missing " + field->name());
    value = static_cast<T>(number - first);
  }

  /// The C++ type that protobuf uses for a number or text; numbers have at least 32 bits.
  template <class T>
  using Wire = std::conditional_t<(sizeof(T) >= 4) || std::is_same_v<T, bool>, T,
                                  std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>>;

  template <class T>
  T narrowed(const Field* field, Wire<T> from) {
    if constexpr (!std::is_same_v<T, Wire<T>>)
      if (!std::in_range<T>(from)) fail(field->name() + " is out of range");
    return static_cast<T>(from);
  }

  template <class T>
  void scalar(const Field* field, T& value) {
    using R = google::protobuf::Reflection;
    using W = Wire<T>;
    const auto exchange = [&](auto get, auto set) {
      if (reads())
        value = narrowed<T>(field, (reflection().*get)(in_, field));
      else
        (reflection().*set)(out_, field, value);
    };
    if constexpr (std::is_same_v<W, std::string>) exchange(&R::GetString, &R::SetString);
    if constexpr (std::is_same_v<W, std::int32_t>) exchange(&R::GetInt32, &R::SetInt32);
    if constexpr (std::is_same_v<W, std::int64_t>) exchange(&R::GetInt64, &R::SetInt64);
    if constexpr (std::is_same_v<W, std::uint32_t>) exchange(&R::GetUInt32, &R::SetUInt32);
    if constexpr (std::is_same_v<W, std::uint64_t>) exchange(&R::GetUInt64, &R::SetUInt64);
    if constexpr (std::is_same_v<W, bool>) exchange(&R::GetBool, &R::SetBool);
    if constexpr (std::is_same_v<W, float>) exchange(&R::GetFloat, &R::SetFloat);
    if constexpr (std::is_same_v<W, double>) exchange(&R::GetDouble, &R::SetDouble);
  }

  template <class T>
  void numbers(const Field* field, std::vector<T>& values) {
    if (!reads()) {
      const auto out = reflection().GetMutableRepeatedFieldRef<Wire<T>>(out_, field);
      for (const T value : values) out.Add(value);
      return;
    }
    const auto in = reflection().GetRepeatedFieldRef<Wire<T>>(in_, field);
    values.reserve(static_cast<std::size_t>(in.size()));
    for (const Wire<T> value : in) values.push_back(narrowed<T>(field, value));
  }

  const Message& in_;
  Message* const out_ = nullptr;
  int next_ = 0;  // the next field's position in the .proto file
  std::string where_;
  ErrorCode code_ = ErrorCode::kInternal;
  std::shared_ptr<Status> status_ = std::make_shared<Status>();  // shared with readers of nested messages
};

/// Writes a struct as a message.
template <class T>
void write(const T& value, google::protobuf::Message& message) {
  Fields out(message);
  fields(out, const_cast<T&>(value));  // writing fields does not change `value`
}

/// Reads a struct from a message. `where` names the message in errors, which have the code `code`.
template <class T>
Result<T> read(const google::protobuf::Message& message, const std::string& where, ErrorCode code) {
  T value;
  Fields in(message, where, code);
  fields(in, value);
  MILLRACE_TRY(in.status());
  return value;
}

}  // namespace millrace::runtime::plan
