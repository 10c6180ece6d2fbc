// Fills text templates with JSON values.
#pragma once

#include <boost/json/fwd.hpp>

#include <string>
#include <string_view>

namespace millrace::compiler::templates {

/// How a template writes its tags, and how values are shown in them.
struct Syntax {
  std::string_view open, close;  // the marks around a tag: "{{" and "}}"
  /// Returns the text of a value; `value` is null if the name has no value. `format` is the tag's text after "|".
  std::string (*show)(const boost::json::value* value, std::string_view format);
  bool strict = false;  // throws std::out_of_range if a name has no value; sections may name anything
};

/// Fills a template that contains these tags, shown here with braces:
///   {{name}}             the value
///   {{name|format}}      the value in a format of `syntax`
///   {{#name}}…{{/name}}  the text once for each element of an array; for any other value once, unless the value
///                        is missing, null, false, 0 or empty
///   {{^name}}…{{/name}}  the text once if the value is missing, null, false, 0 or empty
///
/// A tag's name is looked up in the innermost element first, then in the elements around it. `a.b` is member b of
/// member a, and `.` is the element itself. Values may contain any text; nothing in a value is read as a tag.
std::string fill(std::string_view text, const boost::json::value& values, const Syntax& syntax);

/// Returns a string unchanged, any other value as JSON, and an empty text for a missing value.
std::string plain(const boost::json::value* value);

/// Returns `text` escaped so that HTML and XML show it literally. Control characters become \x1b and the like, and
/// bytes that are not UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

}  // namespace millrace::compiler::templates
