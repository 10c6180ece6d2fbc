// Fills text templates with JSON values.
#pragma once

#include <boost/json/fwd.hpp>

#include <string>
#include <string_view>

namespace millrace::compiler::templates {

/// How a template writes its tags, and how values are shown in them.
struct Syntax {
  std::string_view open, close;  // the marks around a tag: "{{" and "}}"
  /// Returns the text of a value; `value` is null if the name has no value. `format` is the tag's text after " ".
  std::string (*show)(const boost::json::value* value, std::string_view format);
  bool strict = false;  // throws std::out_of_range if a name has no value; sections may name anything
};

/// Fills a template. Tags, here in braces:
///   {{name}}             the value
///   {{name|format}}      the value in a format of `syntax`
///   {{#name}}…{{/name}}  once for each element of an array; else once if the value is there: neither null,
///                        false, 0 nor empty
///   {{^name}}…{{/name}}  once if the value is not there
/// A name is looked up in the innermost element first, then in those around it. `a.b` is a member of a member,
/// `.` the element itself. Values may hold anything: none of it is read as a tag.
std::string fill(std::string_view text, const boost::json::value& values, const Syntax& syntax);

/// Returns a string unchanged, any other value as JSON, and an empty text for a missing value.
std::string plain(const boost::json::value* value);

/// Returns `text` escaped so that HTML and XML show it literally. Control characters become \x1b and the like, and
/// bytes that are not UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

}  // namespace millrace::compiler::templates
