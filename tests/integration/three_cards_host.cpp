// A program that uses XRT (libxrt_coreutil) but no code of Millrace. It loads three FPGA images onto three
// cards, sends one frame of the bytes 0, 1, 2, … through the cards and prints the result in hexadecimal. With
// the argument "stay" it then waits to be killed, and with "exit" it ends without closing the cards.
//
//   three_cards_host A.xclbin B.xclbin C.xclbin ELEMENTS_IN ELEMENTS_OUT print|stay|exit
#include <unistd.h>

#include <experimental/xrt_ip.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace {

constexpr unsigned kEpochRegister = 0x14, kLinkTable = 0x100, kLinkRow = 0x40;
constexpr unsigned kEpoch = 1;

void bind(xrt::ip& control, unsigned row, unsigned connector) {
  const unsigned base = kLinkTable + row * kLinkRow;
  const unsigned values[] = {connector, 0, 256, 4};  // connector, tag, packet bytes, credits
  for (unsigned i = 0; i < 4; ++i) control.write_register(base + 4 + 4 * i, values[i]);
  control.write_register(base, 1);
}

int serve(char** arguments) {
  const auto elements_in = static_cast<unsigned>(std::atoi(arguments[4]));
  const auto elements = static_cast<unsigned>(std::atoi(arguments[5]));
  const unsigned trailer = (elements + 63) / 64 * 64;
  std::vector<xrt::device> cards;
  std::vector<xrt::uuid> images;
  std::vector<xrt::ip> controls;
  for (unsigned i = 0; i < 3; ++i) {
    cards.emplace_back(i);
    images.push_back(cards[i].load_xclbin(std::string(arguments[1 + i])));
    controls.emplace_back(cards[i], images[i], "millrace_control:{control}");
  }
  bind(controls[0], 0, 0);
  bind(controls[1], 0, 0);
  bind(controls[1], 1, 1);
  bind(controls[2], 0, 0);
  for (auto& control : controls) control.write_register(kEpochRegister, kEpoch);

  xrt::kernel ingress(cards[0], images[0], "millrace_ingress"),
      egress(cards[2], images[2], "millrace_egress");
  const auto whole_pages = [](unsigned bytes) { return (bytes + 4095) / 4096 * 4096; };
  xrt::bo in(cards[0], whole_pages(elements_in), ingress.group_id(0));
  xrt::bo out(cards[2], whole_pages(trailer + 64), egress.group_id(0));
  for (unsigned i = 0; i < elements_in; ++i) in.map<unsigned char*>()[i] = static_cast<unsigned char>(i);
  in.sync(XCL_BO_SYNC_BO_TO_DEVICE);
  auto collected = egress(out, elements, kEpoch, 0UL);
  auto sent = ingress(in, elements_in, kEpoch, 0UL);
  sent.wait();
  if (collected.wait(std::chrono::seconds(30)) != ERT_CMD_STATE_COMPLETED) return 1;
  out.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
  for (unsigned i = 0; i < elements; ++i) std::printf("%02x", out.map<unsigned char*>()[i]);
  std::printf("\n");
  std::fflush(stdout);
  if (std::strcmp(arguments[6], "stay") == 0) pause();
  if (std::strcmp(arguments[6], "exit") == 0) _exit(0);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) return 2;
  try {
    return serve(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
