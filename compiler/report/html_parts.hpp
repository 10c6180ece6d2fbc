// The sections of report.html, in their order. Private to this folder.
#pragma once

#include <string>

#include "compiler/planning/alternatives.hpp"
#include "compiler/planning/plan.hpp"
#include "compiler/report/markup.hpp"

namespace millrace::compiler::report {

/// The page's style sheet.
extern const char* const kStyle;

inline const explore::Card& card_of(const Plan& plan, std::uint32_t place) {
  return plan.problem().cards[plan.solution.card[place]];
}

/// The place of each block of the explored program; only what stands on cards is meant.
std::vector<std::uint32_t> places_of_blocks(const Plan& plan);

inline const explore::Implementation& way_of(const Plan& plan, std::uint32_t block) {
  return plan.problem().operations[block].implementations[plan.solution.implementation[block]];
}

/// Frames a second that a block alone would reach on its card.
double rate_of(const Plan& plan, std::uint32_t block, std::uint32_t place);

/// A section with its heading and, below it, what it shows in a sentence; to be closed.
void open_section(Markup& page, const char* id, const char* title, const std::string& hint);

/// A coloured square and what it stands for.
void add_key(Markup& page, const char* colour, const std::string& meaning);

// These need a prediction, except for the first.
void add_pipeline(Markup& page, const Plan& plan);
void add_cables(Markup& page, const Plan& plan);
void add_roofline(Markup& page, const Plan& plan);
void add_bandwidth(Markup& page, const Plan& plan);
void add_resources(Markup& page, const Plan& plan);
void add_latency(Markup& page, const Plan& plan);
void add_layers(Markup& page, const Plan& plan);
void add_energy(Markup& page, const Plan& plan);
void add_alternatives(Markup& page, const Plan& plan, const Alternatives& alternatives);

}  // namespace millrace::compiler::report
