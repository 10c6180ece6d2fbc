// Text made from a template and values. Private to this folder.
#pragma once

#include <boost/json/fwd.hpp>

#include <string>
#include <string_view>

namespace millrace::compiler::report {

/// Fills a template:
///   {{name}}             the value, escaped for HTML; nothing if there is none
///   {{name|format}}      a number as people read it: commas, short, percent, bytes, us, fixed, joules; "-" if
///                        there is none
///   {{#name}}…{{/name}}  once for each element of an array; else once if the value is there: neither null,
///                        false, 0 nor empty
///   {{^name}}…{{/name}}  once if the value is not there
/// A name is looked up in the innermost element first, then in those around it. `a.b` is a member of a member,
/// `.` the element itself. Values may hold anything: none of it is read as markup.
std::string fill(std::string_view text, const boost::json::value& values);

/// As HTML shows `text` literally: control characters as \x1b, bytes that are not UTF-8 as U+FFFD.
std::string escaped(std::string_view text);

/// The template of report.html.
extern const std::string_view kPage;

}  // namespace millrace::compiler::report
