// Formats numbers, times and rates for messages.
#pragma once

#include <string>

#include "compiler/explore/problem.hpp"

namespace millrace::compiler::explore {

/// Returns a count with its noun: "1 card", "2 cards".
std::string plural(std::size_t n, const std::string& word);

/// Returns the number with one decimal if it is below 100 and not whole, otherwise without decimals.
std::string number(double value);

/// Returns a time in ns, us or ms.
std::string time(double seconds);

/// Return a rate rounded down, and a time rounded up, so that a plan meets a target that equals the printed figure.
std::string rate_down(double frames_per_second);
std::string time_up(double seconds);

/// Appends a clause for each kind of resource whose use exceeds what a region of the card has.
void add_overfull(std::string& text, const Card& card, std::size_t region, const Amounts& used);

/// Names the targets for rate and latency that these figures miss. Returns an empty text if none is missed.
std::string missed(const Targets& targets, double frames_per_second, double latency_seconds);

}  // namespace millrace::compiler::explore
