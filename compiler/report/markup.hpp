// HTML and SVG put together so that nothing of what comes from outside is read as markup. Private to this
// folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace::compiler::report {

struct Attribute {
  const char* name;
  std::string value;
};
using Attributes = std::vector<Attribute>;

/// Elements are closed in the order in which they were opened. Texts and values of attributes may be
/// anything: they are escaped; control characters show as \x1b, what is not UTF-8 as U+FFFD.
class Markup {
 public:
  Markup& open(const char* tag, const Attributes& attributes = {});
  Markup& close();
  Markup& text(std::string_view text);
  /// open, text, close.
  Markup& put(const char* tag, const Attributes& attributes, std::string_view text);
  Markup& put(const char* tag, std::string_view text) { return put(tag, {}, text); }
  /// An element without content: <rect/>, <br/>.
  Markup& leaf(const char* tag, const Attributes& attributes = {});
  /// Text of this program's own, as it is: the style sheet.
  Markup& own(std::string_view markup);

  /// The whole, every element closed.
  std::string take();

 private:
  void begin(const char* tag, const Attributes& attributes);

  std::string out_;
  std::vector<const char*> open_;
};

/// As Markup writes it.
std::string escaped(std::string_view text);

}  // namespace millrace::compiler::report
