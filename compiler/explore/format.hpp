// Figures as messages give them.
#pragma once

#include <string>

#include "compiler/explore/problem.hpp"

namespace millrace::compiler::explore {

/// "1 card", "2 cards".
std::string plural(std::size_t n, const std::string& word);

/// One decimal below 100 where it is not whole.
std::string number(double value);

/// In ns, us or ms.
std::string time(double seconds);

/// The same, rounded such that asking for what is printed asks for no more than there is.
std::string rate_down(double frames_per_second);
std::string time_up(double seconds);

/// Appends a clause for each kind of resource of which more is used than a region of the card has.
void add_overfull(std::string& text, const Card& card, std::size_t region, const Amounts& used);

/// The targets for rate and latency that these figures (frames a second, seconds) miss; empty: none.
std::string missed(const Targets& targets, double frames_per_second, double latency_seconds);

}  // namespace millrace::compiler::explore
