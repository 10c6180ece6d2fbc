#include "compiler/report/figures.hpp"
#include "compiler/report/html_parts.hpp"
#include "compiler/report/report.hpp"
#include "compiler/report/sentences.hpp"

namespace millrace::compiler::report {

std::vector<std::uint32_t> places_of_blocks(const Plan& plan) {
  std::vector<std::uint32_t> out(plan.problem().operations.size(), 0);
  for (const auto& part : plan.solution.parts)
    if (!part.host)
      for (const auto i : part.operations) out[i] = part.place;
  return out;
}

double rate_of(const Plan& plan, std::uint32_t block, std::uint32_t place) {
  return card_of(plan, place).clock_hz / static_cast<double>(way_of(plan, block).interval_cycles);
}

void open_section(Markup& page, const char* id, const char* title, const std::string& hint) {
  page.open("section", {{"id", id}, {"aria-labelledby", std::string(id) + "-title"}});
  page.put("h2", {{"id", std::string(id) + "-title"}}, title);
  page.put("p", {{"class", "hint"}}, hint);
}

void add_key(Markup& page, const char* colour, const std::string& meaning) {
  page.open("li").open("svg", {{"viewBox", "0 0 10 10"}, {"aria-hidden", "true"}});
  page.leaf("rect", {{"class", colour}, {"width", "10"}, {"height", "10"}, {"rx", "2"}}).close();
  page.text(meaning).close();
}

namespace {

class Page {
 public:
  Page(const Plan& plan, const Alternatives& alternatives, const HtmlOptions& options)
      : plan_(plan), alternatives_(alternatives), options_(options) {}

  std::string run() {
    head();
    page_.open("body");
    opening();
    page_.open("main");
    add_pipeline(page_, plan_);
    if (predicted()) {
      add_roofline(page_, plan_);
      add_alternatives(page_, plan_, alternatives_);
      add_latency(page_, plan_);
      add_layers(page_, plan_);
      add_bandwidth(page_, plan_);
      add_resources(page_, plan_);
      add_energy(page_, plan_);
    }
    page_.close();
    closing();
    return page_.take();
  }

 private:
  bool predicted() const { return plan_.unpredicted().empty(); }

  void head() {
    page_.own("<!doctype html>\n");
    page_.open("html", {{"lang", "en"}}).open("head").leaf("meta", {{"charset", "utf-8"}});
    page_.leaf("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
    // Nothing is fetched and nothing runs, whatever a name says.
    page_.leaf("meta", {{"http-equiv", "Content-Security-Policy"},
                        {"content", "default-src 'none'; style-src 'unsafe-inline'"}});
    page_.put("title", plan_.model.info.name + " on " + plan_.cluster().name + " - Millrace plan");
    page_.open("style").own(kStyle).close().close();
  }

  void tile(const char* what, const std::string& value) {
    page_.open("div").put("dt", what).put("dd", value).close();
  }
  void notice(const std::string& words) { page_.put("p", {{"class", "notice"}}, words); }

  void opening() {
    page_.open("header")
        .open("h1")
        .put("bdi", plan_.model.info.name)
        .text(" on ")
        .put("bdi", plan_.cluster().name);
    page_.close().put("p", {{"class", "hint"}},
                      predicted() ? quality(plan_) + "." : "Cut by its work alone.");
    if (!plan_.model.assumed.empty()) notice("Assumed: " + assumption(plan_));
    if (const std::string only = plans_only(plan_); !only.empty()) notice(only + ".");
    if (!predicted()) notice("Nothing is predicted: " + plan_.unpredicted());
    for (const auto& split : plan_.lowered->changes.splits)
      notice("'" + split.block + "' is built as " + std::to_string(split.parts) +
             ", each with a part of its output channels.");
    if (const std::string layers = predicted() ? streamed(plan_) : ""; !layers.empty())
      notice("W" + layers.substr(1) + ".");
    if (plan_.followed) notice(cost_of_edit(plan_) + ".");
    if (plan_.replicas() > 1) notice(std::to_string(plan_.replicas()) + " " + replicas(plan_) + ".");
    page_.open("dl", {{"class", "tiles"}});
    tile("cards", std::to_string(plan_.cards()) + " of " + std::to_string(plan_.cluster().cards.size()));
    if (predicted()) {
      tile("frames a second", with_commas(plan_.frames_per_second()));
      tile("latency of a frame", duration(plan_.latency_seconds, "µ"));
      tile("objective", explore::objective_name(plan_.problem().targets.objective));
      if (plan_.problem().targets.frames_per_second)
        tile("target, frames a second", with_commas(*plan_.problem().targets.frames_per_second));
      if (plan_.problem().targets.max_latency_seconds)
        tile("latency, at most", duration(*plan_.problem().targets.max_latency_seconds, "µ"));
    }
    page_.close();
    if (predicted()) contents();
    page_.close();
  }

  void contents() {
    page_.open("nav", {{"aria-label", "Sections"}});
    for (const auto& [id, name] : {std::pair{"pipeline", "Pipeline"},
                                   {"roofline", "Limits"},
                                   {"alternatives", "Alternatives"},
                                   {"latency", "Latency"},
                                   {"layers", "Layers"},
                                   {"bandwidth", "Bandwidth"},
                                   {"resources", "Resources"},
                                   {"energy", "Energy"}})
      page_.put("a", {{"href", std::string("#") + id}}, name).text(" ");
    page_.close();
  }

  void closing() {
    page_.open("footer");
    std::string host;
    for (std::size_t i = 0; i < plan_.program().blocks.size(); ++i)
      if (plan_.problem().operations[i].host)
        host += (host.empty() ? "" : ", ") + plan_.program().blocks[i].name;
    if (!host.empty()) page_.put("p", "On the host: " + host + ".");
    for (const auto& note : plan_.model.notes) page_.put("p", "Noted: " + note + ".");
    if (const std::string terms = extrapolated(plan_); !terms.empty())
      page_.put("p", "Noted: " + terms + ".");
    page_.put("p",
              "Written by millrace. Clocks are assumed to be reached, resources are predicted, rates and "
              "latencies are the dataflow's without ingress and egress, and nothing here ran on a card.");
    if (options_.times)
      page_.put("p", "Explored in " + fixed(plan_.times.exploration_ms, 1) + " ms, predicted in " +
                         fixed(plan_.times.prediction_ms, 1) + " ms.");
    page_.close();
  }

  const Plan& plan_;
  const Alternatives& alternatives_;
  const HtmlOptions& options_;
  Markup page_;
};

}  // namespace

std::string html(const Plan& plan, const Alternatives& alternatives, const HtmlOptions& options) {
  return Page(plan, alternatives, options).run();
}

}  // namespace millrace::compiler::report
