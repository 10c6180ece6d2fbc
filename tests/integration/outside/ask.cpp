// Usage: ask URL MODEL FILE. Sends the bytes of FILE to a server for one inference and writes the first
// output's bytes to standard output.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <millrace/client.hpp>

int main(int count, char** words) {
  if (count != 4) return 2;
  std::ifstream file(words[3], std::ios::binary);
  const std::vector<char> input(std::istreambuf_iterator<char>(file), {});
  std::unique_ptr<millrace::client::Client> client;
  std::vector<std::vector<std::byte>> outputs;
  auto status = millrace::client::connect(words[1], {}, client);
  if (status.ok())
    status =
        client->infer(words[2], "", {std::as_bytes(std::span(input))}, std::chrono::seconds(60), outputs);
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message.c_str()), 1;
  std::fwrite(outputs.at(0).data(), 1, outputs.at(0).size(), stdout);
}
