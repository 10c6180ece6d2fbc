#include <algorithm>
#include <cmath>

#include "compiler/report/figures.hpp"
#include "compiler/report/html_parts.hpp"

namespace millrace::compiler::report {

void add_layers(Markup& page, const Plan& plan) {
  open_section(page, "layers", "Layers, and how they are built",
               "Cycles are those from one frame to the next of the block alone; resources are its own with "
               "its joints, estimated.");
  page.open("table", {{"class", "stack wide"}}).open("thead").open("tr");
  page.put("th", "Block").put("th", {{"class", "text"}}, "Card").put("th", {{"class", "text"}}, "Built as");
  constexpr std::size_t kShown[] = {explore::kLut, explore::kFf, explore::kDsp, explore::kBram18,
                                    explore::kUram};
  for (const char* head : {"Cycles", "Frames/s"}) page.put("th", head);
  for (const auto k : kShown) page.put("th", explore::kind_name(k));
  page.close().close().open("tbody");
  const auto place = places_of_blocks(plan);
  for (std::uint32_t i = 0; i < plan.problem().operations.size(); ++i) {
    if (plan.problem().operations[i].host) continue;
    const auto& way = way_of(plan, i);
    const auto& card = card_of(plan, place[i]);
    const std::string region =
        card.regions.size() > 1 ? ", " + card.regions[plan.solution.region[i]].name : std::string();
    page.open("tr").put("th", {{"scope", "row"}}, plan.program().blocks[i].name);
    page.put("td", {{"data-label", "Card"}, {"class", "text"}}, card.name + region);
    page.put("td", {{"data-label", "Built as"}, {"class", "text long"}}, way.name);
    page.put("td", {{"data-label", "Cycles"}}, with_commas(static_cast<double>(way.interval_cycles)));
    page.put("td", {{"data-label", "Frames/s"}}, short_number(rate_of(plan, i, place[i])));
    for (const auto k : kShown)
      page.put("td", {{"data-label", explore::kind_name(k)}},
               with_commas(static_cast<double>(way.amounts[k])));
    page.close();
  }
  page.close().close().close();
}

}  // namespace millrace::compiler::report
