// What stands between units, and around a partition: ports, links, control.
#include <array>

#include "tools/calibrate/modules.hpp"

namespace millrace::tools::calibrate {

std::vector<Parameters> skid_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t width : {1, 8, 24, 64, 200, 512}) rows.push_back({{"WIDTH", width}});
  return rows;
}

std::vector<Parameters> readers_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t n : {1, 2, 3, 4, 8, 16}) rows.push_back({{"WIDTH", 8}, {"N", n}});
  return rows;
}

std::vector<Parameters> fifo_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t width : {1, 8, 24, 64, 200}) {
    for (const std::int64_t depth : {2, 3, 6, 16, 21, 32, 48, 64}) {
      if ((width + depth) % 3 != 0 || depth == 2)
        rows.push_back({{"WIDTH", width}, {"DEPTH", depth}, {"MEMORY", 0}});
    }
  }
  for (const auto& [width, depth] : {std::array<std::int64_t, 2>{8, 100},
                                     {16, 130},
                                     {24, 160},
                                     {48, 300},
                                     {64, 1024},
                                     {150, 97},
                                     {8, 1500},
                                     {8, 400}}) {
    rows.push_back({{"WIDTH", width}, {"DEPTH", depth}, {"MEMORY", 0}});
  }
  return rows;
}

std::vector<Parameters> width_adapter_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t lane : {4, 8, 24}) {
    for (const auto& [s, m] : {std::array<std::int64_t, 2>{1, 2},
                               {1, 6},
                               {2, 16},
                               {4, 1},
                               {16, 2},
                               {6, 3},
                               {2, 3},
                               {6, 4},
                               {4, 25},
                               {10, 8},
                               {5, 3},
                               {16, 25}}) {
      if (lane == 24 && s * m > 60) continue;
      rows.push_back({{"LANE", lane}, {"S_LANES", s}, {"M_LANES", m}});
    }
  }
  return rows;
}

namespace {

Parameters port(std::int64_t data_bytes, std::int64_t lanes, std::int64_t ebytes, std::int64_t bits) {
  return {{"DATA_BYTES", data_bytes}, {"BURST", 16},   {"LANES", lanes},
          {"EBYTES", ebytes},         {"ABITS", bits}, {"AKIND", 1}};
}

}  // namespace

/// The bus is as wide as compile makes it; what differs is how its words become beats.
std::vector<Parameters> ingress_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t lanes : {1, 2, 4, 8, 16, 3, 6, 10, 49, 98, 32, 64, 128, 192, 256, 640, 1024, 100})
    rows.push_back(port(64, lanes, 1, 8));
  return rows;
}

std::vector<Parameters> egress_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t lanes : {1, 2, 4, 8, 3, 6, 10, 5, 28, 49, 16, 32, 64, 128, 192, 256, 640, 1024})
    rows.push_back(port(64, lanes, 1, 8));
  return rows;
}

std::vector<Parameters> sender_sample() {
  std::vector<Parameters> rows;
  const auto add = [&](std::int64_t lanes, std::int64_t bits, std::int64_t beats, std::int64_t packet) {
    rows.push_back({{"BYTES", 8},
                    {"LANES", lanes},
                    {"ABITS", bits},
                    {"BEATS", beats},
                    {"PACKET", packet},
                    {"REFRESH", 4096}});
  };
  for (const std::int64_t lanes : {1, 2, 4, 3, 6, 10}) add(lanes, 8, 40 * lanes, 1024);
  add(2, 4, 800, 1024);
  add(1, 8, 10, 64);
  for (const std::int64_t lanes : {8, 16, 24, 64, 128, 12}) add(lanes, 8, 40, 1024);
  add(16, 4, 400, 1024);
  add(4, 8, 16, 64);
  return rows;
}

std::vector<Parameters> receiver_sample() {
  std::vector<Parameters> rows;
  const auto add = [&](std::int64_t lanes, std::int64_t bits, std::int64_t beats, std::int64_t buffer,
                       std::int64_t most) {
    rows.push_back({{"BYTES", 8},
                    {"LANES", lanes},
                    {"ABITS", bits},
                    {"BEATS", beats},
                    {"BUFFER", buffer},
                    {"MOST", most},
                    {"REFRESH", 4096}});
  };
  add(1, 8, 84, 256, 2);
  add(2, 8, 400, 256, 2);
  add(4, 8, 100, 256, 4);
  add(8, 8, 1000, 512, 8);
  add(3, 8, 1024, 2048, 16);
  add(6, 8, 196, 256, 2);
  add(10, 8, 40, 1024, 8);
  add(2, 4, 800, 256, 2);
  add(16, 8, 84, 256, 2);
  add(24, 8, 40, 256, 2);
  add(32, 8, 400, 256, 4);
  add(64, 8, 40, 512, 2);
  add(128, 8, 40, 256, 2);
  add(12, 8, 40, 256, 2);
  return rows;
}

std::vector<Parameters> hub_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t connectors : {1, 2})
    for (const std::int64_t ports : {1, 2, 3, 4})
      rows.push_back({{"BYTES", 8}, {"PORTS", ports}, {"CONNECTORS", connectors}, {"PACKET", 1024}});
  return rows;
}

std::vector<Parameters> reader_sample() {
  std::vector<Parameters> rows;
  for (const auto& [bus, width, lines] : {std::array<std::int64_t, 3>{64, 512, 100},
                                          {64, 64, 1000},
                                          {64, 8, 33},
                                          {64, 72, 13},
                                          {64, 1024, 64},
                                          {64, 2048, 20},
                                          {32, 256, 7},
                                          {32, 32, 500},
                                          {16, 128, 64},
                                          {16, 40, 90}})
    rows.push_back({{"DATA_BYTES", bus}, {"BURST", 16}, {"WIDTH", width}, {"LINES", lines}});
  return rows;
}

/// Lines as tables have them, with what follows them on the stream.
std::vector<Parameters> load_sample() {
  std::vector<Parameters> rows;
  for (const auto& [width, lines, rest] : {std::array<std::int64_t, 3>{8, 4, 5},
                                           {64, 5, 0},
                                           {72, 100, 40},
                                           {96, 64, 300},
                                           {128, 32, 1000},
                                           {160, 10, 77},
                                           {252, 8, 20},
                                           {320, 25, 3000},
                                           {512, 196, 4096},
                                           {1024, 16, 8},
                                           {200, 3, 2},
                                           {63, 4, 0},
                                           {24, 1, 0},
                                           {68, 120, 12},
                                           {40, 10, 300},
                                           {16, 300, 1000},
                                           {9, 256, 0},
                                           {2048, 4, 100},
                                           {400, 900, 90000},
                                           {32, 3136, 20000},
                                           {57, 10, 7},
                                           {136, 84, 11000},
                                           {21, 150, 601},
                                           {1600, 60, 250}})
    rows.push_back({{"WIDTH", width}, {"LINES", lines}, {"REST", rest}});
  return rows;
}

/// As compile makes it, with little and much to load; and buses and bursts it might come to make.
std::vector<Parameters> parameters_sample() {
  std::vector<Parameters> rows;
  for (const auto& [bus, burst, words, hops] : {std::array<std::int64_t, 4>{64, 16, 8, 1},
                                                {64, 16, 104, 3},
                                                {64, 16, 512, 4},
                                                {64, 16, 1000, 8},
                                                {64, 16, 4696, 6},
                                                {64, 16, 8192, 15},
                                                {64, 16, 50000, 24},
                                                {64, 16, 262136, 40},
                                                {64, 16, 3200000, 160},
                                                {64, 8, 1000, 8},
                                                {64, 32, 1000, 8},
                                                {32, 16, 1000, 8},
                                                {32, 8, 50000, 24},
                                                {16, 16, 1000, 8}})
    rows.push_back({{"DATA_BYTES", bus}, {"BURST", burst}, {"WORDS", words}, {"HOPS", hops}});
  return rows;
}

std::vector<Parameters> supervisor_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t bus : {8, 16, 32, 64}) rows.push_back({{"DATA_BYTES", bus}});
  return rows;
}

std::vector<Parameters> control_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t clock : {100, 150, 156, 250, 300}) {
    rows.push_back({{"ABI_VERSION", 1}, {"LINK_PORTS", 0}, {"CLOCK_MHZ", clock}, {"RESET_CYCLES", 4}});
  }
  return rows;
}

}  // namespace millrace::tools::calibrate
