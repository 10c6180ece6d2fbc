// Tests the parsers of XRT's reports of a board's sensors and memories. The formats are those of sensor.cpp and
// info_memory.cpp in XRT 2.13.
#include <gtest/gtest.h>

#include "runtime/card/sensors.hpp"

namespace millrace::runtime::card::test_sensors {
namespace {

TEST(Sensors, PowerIsTheBoardsTotalOrAbsentIfUnknown) {
  EXPECT_DOUBLE_EQ(
      *power_watts_of(R"({"power_rails":[],"power_consumption_max_watts":"225",)"
                      R"("power_consumption_watts":"23.481","power_consumption_warning":"false"})"),
      23.481);
  for (const char* text :
       {R"({"power_consumption_watts":"N/A"})", R"({"power_consumption_watts":""})",
        R"({"power_consumption_watts":"12W"})", R"({"power_consumption_watts":null})",
        R"({"power_consumption_watts":"inf"})", R"({"power_rails":[{"error_msg":"no"}]})", "[]", "", "{"})
    EXPECT_FALSE(power_watts_of(text).has_value()) << text;
}

TEST(Sensors, TemperatureIsTheHighestReadingOfAllPresentSensors) {
  EXPECT_DOUBLE_EQ(
      *hottest_celsius_of(
          R"({"thermals":[{"location_id":"fpga0","description":"FPGA","temp_C":"45","is_present":"true"},)"
          R"({"location_id":"qsfp0","temp_C":"99","is_present":"false"},)"
          R"({"location_id":"pcb","temp_C":"51","is_present":"true"}]})"),
      51);
  for (const char* text : {R"({"thermals":[{"location_id":"fpga0","temp_C":"0","is_present":"false"}]})",
                           R"({"thermals":[{"error_msg":"no"},7,[]]})",
                           R"({"thermals":{"error_msg":"Information unavailable"}})",
                           R"({"thermals":[{"temp_C":"warm","is_present":"true"}]})", "null", "", "]"})
    EXPECT_FALSE(hottest_celsius_of(text).has_value()) << text;
}

TEST(Sensors, HostMemoryIsWhatIsEnabledOrAbsentWithoutABank) {
  const auto report = [](const std::string& banks) {
    return R"({"board":{"memory":{"memories":[)" + banks + "]}}}";
  };
  const std::string card =
      R"({"type":"MEM_DDR4","tag":"bank0","enabled":"true","range_bytes":"0x400000000"},)";
  const std::string host =
      R"({"type":"MEM_DRAM","tag":"HOST[0]","enabled":"true","range_bytes":"0x40000000"})";
  EXPECT_EQ(host_memory_bytes_of(report(card + host)), 1ULL << 30U);
  EXPECT_EQ(host_memory_bytes_of(
                report(card + R"({"tag":"HOST[0]","enabled":"false","range_bytes":"0x40000000"})")),
            0U)
      << "a bank that is not enabled";
  EXPECT_EQ(host_memory_bytes_of(report(R"({"tag":"HOST[0]","enabled":"true","range_bytes":"1 GB"})")), 0U);
  EXPECT_FALSE(host_memory_bytes_of(report(card.substr(0, card.size() - 1))).has_value());
  for (const char* text : {"", "{}", "[]", R"({"board":{"memory":{"memories":7}}})", R"({"error_msg":"no"})"})
    EXPECT_FALSE(host_memory_bytes_of(text).has_value()) << text;
}

}  // namespace
}  // namespace millrace::runtime::card::test_sensors
