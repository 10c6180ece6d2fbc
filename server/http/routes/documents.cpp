#include "server/http/routes/documents.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <functional>
#include <map>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/base/text.hpp"

namespace millrace::server::http {
namespace {

namespace json = boost::json;
namespace pipeline = runtime::pipeline;
namespace plan = runtime::plan;
using plan::TensorSignature;

constexpr std::chrono::seconds kLately{10};  // the status reports latencies of frames that ended in this time

std::string_view to_string(pipeline::CardState state) {
  static constexpr std::string_view kNames[] = {"loading", "up", "lost"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view to_string(plan::PartitionKind kind) {
  static constexpr std::string_view kNames[] = {"host", "dataflow", "aie"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(plan::Transport transport) {
  static constexpr std::string_view kNames[] = {"host", "aurora", "udp", "mpi"};
  return kNames[static_cast<std::size_t>(transport)];
}

json::value or_null(const std::optional<double>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

template <class Values, class Describe>
json::array list(const Values& values, Describe describe) {
  json::array out;
  for (const auto& value : values) out.emplace_back(describe(value));
  return out;
}

template <class Values>
json::array list(const Values& values) {
  return list(values, [](const auto& value) { return json::value(value); });
}

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// Returns `text` with printable UTF-8 only. The text of a client, or a text that was cut, may be invalid UTF-8.
std::string shown(std::string text) {
  if (!is_utf8(text))
    std::replace_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0x80U) != 0; }, '?');
  return printable(text);
}

json::array tensors(const std::vector<TensorSignature>& signatures) {
  return list(signatures, [](const auto& signature) {
    return json::object{
        {"name", signature.name}, {"datatype", signature.datatype}, {"shape", list(signature.shape)}};
  });
}

/// Returns the description of a model's inputs. An input that clients may send quantised has its integer type
/// and scale as parameters: the integer q represents (q - zero_point) * scale.
json::array inputs_of(const models::Model& model) {
  json::array out = tensors(model.info().inputs);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (const auto& integers = model.quantised()[i])
      out[i].as_object()["parameters"] = json::object{{"quantized_datatype", integers->datatype},
                                                      {"quantized_scale", integers->scale},
                                                      {"quantized_zero_point", integers->zero_point}};
  return out;
}

/// Returns the tensors as Triton's model configuration lists them, with TYPE_FP32 for FP32.
json::array configured_tensors(const std::vector<TensorSignature>& signatures) {
  return list(signatures, [](const auto& signature) {
    return json::object{{"name", signature.name},
                        {"data_type", "TYPE_" + signature.datatype},
                        {"dims", list(signature.shape)}};
  });
}

json::object duration(std::uint64_t count, std::chrono::nanoseconds time) {
  return {{"count", count}, {"ns", time.count()}};
}

json::object statistics(const models::Model& model) {
  const models::Statistics now = model.statistics();
  const json::object input = duration(now.successes, now.succeeded.input);
  const json::object compute = duration(now.successes, now.succeeded.compute);
  const json::object output = duration(now.successes, now.succeeded.output);
  const json::object none = duration(0, {});
  json::array batches;
  if (now.successes > 0)
    batches.push_back(json::object{
        {"batch_size", 1}, {"compute_input", input}, {"compute_infer", compute}, {"compute_output", output}});
  return {{"name", model.name()},
          {"version", model.version()},
          {"last_inference", now.last_inference_unix_ms},
          {"inference_count", now.successes},
          {"execution_count", now.successes},
          {"inference_stats", json::object{{"success", duration(now.successes, now.succeeded.request)},
                                           {"fail", duration(now.failures, now.failed)},
                                           {"queue", duration(now.successes, now.succeeded.queue)},
                                           {"compute_input", input},
                                           {"compute_infer", compute},
                                           {"compute_output", output},
                                           {"cache_hit", none},
                                           {"cache_miss", none}}},
          {"batch_stats", std::move(batches)},
          {"memory_usage", json::array()},
          {"response_stats", json::object()}};
}

json::object named(const models::Model& model) {
  return {{"name", model.name()}, {"version", model.version()}, {"state", models::to_string(model.state())}};
}

template <class Describe>
std::string of_every_model(const models::Snapshot& snapshot, Describe describe) {
  return json::serialize(json::object{
      {"schema", 1}, {"models", list(snapshot.all(), [&](const auto& model) { return describe(*model); })}});
}

/// Returns percentiles of the time from submission to the last output byte, over the frames that ended within the last
/// kLately.
json::object latencies(pipeline::Pipeline& of) {
  const auto since = pipeline::Clock::now() - kLately;
  std::vector<double> times;
  for (const auto& frame : of.recent_frames())
    if (frame.done >= since) times.push_back(microseconds(frame.done - frame.submitted));
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) -> json::value {
    if (times.empty()) return nullptr;
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  return {{"frames", times.size()}, {"p50", at(0.5)}, {"p99", at(0.99)}};
}

double busy_ratio(const pipeline::CardStatus& card, models::Model& model) {
  return model.busy().of(card.card, card.busy_seconds, models::BusyRatios::Clock::now());
}

json::object resets_of(const pipeline::CardStatus& card) {
  json::object resets;
  for (std::size_t step = 0; step < card.resets.size(); ++step)
    resets[to_string(static_cast<runtime::card::ResetStep>(step))] = card.resets[step];
  return resets;
}

json::array cards_of(const pipeline::PipelineStatus& status, models::Model& model) {
  return list(status.cards, [&](const auto& card) {
    return json::object{{"endpoint", card.endpoint},
                        {"card", card.card},
                        {"image", card.image},
                        {"replica", card.replica},
                        {"state", to_string(card.state)},
                        {"answers", card.answers},
                        {"restarts", card.restarts},
                        {"programmed", card.programmed},
                        {"resets", resets_of(card)},
                        {"frames", card.frames},
                        {"busy_seconds", card.busy_seconds},
                        {"busy_ratio", busy_ratio(card, model)},
                        {"temperature_celsius", or_null(card.sensors.temperature_celsius)},
                        {"power_watts", or_null(card.sensors.power_watts)}};
  });
}

json::array links_of(const pipeline::PipelineStatus& status) {
  return list(status.links, [](const auto& link) {
    return json::object{{"channel", link.channel},
                        {"producer", link.producer_card},
                        {"consumer", link.consumer_card},
                        {"replica", link.replica},
                        {"up", link.up},
                        {"packets", link.packets},
                        {"bytes", link.bytes},
                        {"stalls", link.stalls},
                        {"state", link.state},
                        {"repeats", link.repeats},
                        {"damaged", link.damaged},
                        {"dropped", link.dropped},
                        {"errors", link.errors}};
  });
}

json::object pipeline_of(models::Model& model) {
  const auto status = model.pipeline().status();
  json::object out = named(model);
  out["digest"] = model.deployment().digest;
  out["ready"] = status.ready;
  out["replicas"] = status.replicas;
  out["replicas_ready"] = status.replicas_ready;
  out["in_flight"] = status.in_flight;
  out["queued"] = status.queued;
  out["slots"] = status.slots;
  out["queue_capacity"] = status.queue_capacity;
  out["epoch"] = status.epoch;
  out["completed"] = status.completed;
  out["failed"] = status.failed;
  out["refused"] = model.statistics().refused;
  out["recoveries"] = status.recoveries;
  out["recovery_seconds"] = status.recovery_seconds;
  out["bring_up_seconds"] = status.bring_up_seconds;
  out["latency_us"] = latencies(model.pipeline());
  out["cards"] = cards_of(status, model);
  out["links"] = links_of(status);
  return out;
}

json::object partition_of(const plan::Partition& partition, const pipeline::PipelineStatus& status,
                          models::Model& model) {
  json::object out{{"name", partition.name},
                   {"kind", to_string(partition.kind)},
                   {"endpoint", partition.endpoint},
                   {"nodes", list(partition.nodes)},
                   {"multiply_accumulates", partition.prediction.multiply_accumulates}};
  json::array cards;
  for (const auto& card : status.cards) {
    if (card.endpoint != partition.endpoint) continue;
    json::object on{{"card", card.card}, {"image", card.image}, {"state", to_string(card.state)}};
    on["frames"] = card.frames;
    on["busy_ratio"] = busy_ratio(card, model);
    if (cards.empty()) out.insert(on.begin(), on.end());
    on["replica"] = card.replica;
    cards.push_back(std::move(on));
  }
  if (!cards.empty()) out["cards"] = std::move(cards);
  return out;
}

json::object partitions_of(models::Model& model) {
  const auto status = model.pipeline().status();
  json::object out = named(model);
  out["partitions"] = list(model.deployment().partitions,
                           [&](const auto& partition) { return partition_of(partition, status, model); });
  return out;
}

json::array ports_of(const std::vector<plan::Port>& ports) {
  return list(ports, [](const auto& port) {
    return json::object{{"name", port.name},
                        {"tensor", port.tensor},
                        {"shape", list(port.shape)},
                        {"bytes", port.storage_bytes()}};
  });
}

json::object end_of(const plan::PortRef& end) {
  return {{"partition", end.partition}, {"port", end.port}};
}

json::object deployment_of(models::Model& model) {
  const plan::Deployment& of = model.deployment();
  json::object out = named(model);
  out["digest"] = of.digest;
  out["generator"] = of.generator;
  out["endpoints"] = list(of.endpoints, [](const auto& endpoint) {
    return json::object{{"name", endpoint.name},
                        {"host", endpoint.host},
                        {"device", endpoint.device},
                        {"image", endpoint.image}};
  });
  out["images"] = list(of.images, [](const auto& image) {
    return json::object{{"name", image.name},
                        {"uuid", image.uuid},
                        {"content_digest", image.content_digest},
                        {"device", image.device},
                        {"partitions", list(image.partitions)}};
  });
  out["partitions"] = list(of.partitions, [](const auto& partition) {
    return json::object{{"name", partition.name},
                        {"kind", to_string(partition.kind)},
                        {"endpoint", partition.endpoint},
                        {"image", partition.image},
                        {"nodes", list(partition.nodes)},
                        {"program_digest", partition.program_digest},
                        {"multiply_accumulates", partition.prediction.multiply_accumulates},
                        {"inputs", ports_of(partition.inputs)},
                        {"outputs", ports_of(partition.outputs)}};
  });
  out["channels"] = list(of.channels, [](const auto& channel) {
    return json::object{{"id", channel.id},
                        {"name", channel.name},
                        {"transport", to_string(channel.transport)},
                        {"producer", end_of(channel.producer)},
                        {"consumer", end_of(channel.consumer)},
                        {"frame_bytes", channel.frame_bytes},
                        {"packet_bytes", channel.packet_bytes},
                        {"credits", channel.credits}};
  });
  return out;
}

/// Adds the trace events of a model, which the trace shows as a process. Each frame slot, which has one frame at a
/// time, is shown as a thread. The waits of frames overlap, so they are shown as asynchronous events.
void add_events(models::Model& model, std::size_t process, json::array& events) {
  const auto frames = model.pipeline().recent_frames();
  std::uint32_t slots = 0, replicas = 1;  // `slots` counts the slots of each replica
  for (const auto& frame : frames) {
    slots = std::max(slots, frame.slot + 1);
    replicas = std::max(replicas, frame.replica + 1);
  }
  const auto add = [&](const char* phase, const std::string& name, std::uint64_t row,
                       const json::object& more) {
    json::object event{{"ph", phase}, {"name", name}};
    if (*phase != 'M') event["cat"] = "frame";  // an event of phase M names a process or a thread
    event["pid"] = process;
    event["tid"] = row;
    event.insert(more.begin(), more.end());
    events.push_back(std::move(event));
  };
  const auto label = [&](const char* what, std::uint64_t row, const std::string& name) {
    add("M", what, row, {{"args", {{"name", name}}}});
  };
  const auto at = [](pipeline::Clock::time_point time) { return microseconds(time.time_since_epoch()); };

  label("process_name", 0, model.name() + " version " + model.version());
  for (const auto& frame : frames) {
    const std::uint64_t row = std::uint64_t{frame.replica} * slots + frame.slot;
    const std::uint64_t id = std::uint64_t{frame.replica} << 48U | frame.sequence;
    const auto waited = [&](const char* phase, pipeline::Clock::time_point time) {
      add(phase, "queue", row, {{"id", id}, {"ts", at(time)}});
    };
    const auto on_slot = [&](const std::string& name, pipeline::Clock::time_point from,
                             pipeline::Clock::time_point to) {
      add("X", name, row,
          {{"ts", at(from)},
           {"dur", microseconds(to - from)},
           {"args", {{"sequence", frame.sequence}, {"epoch", frame.epoch}}}});
    };
    waited("b", frame.submitted);
    waited("e", frame.staged);
    on_slot("frame " + std::to_string(frame.sequence), frame.staged, frame.done);
    on_slot("input", frame.staged, frame.started);
    on_slot("cards", frame.started, frame.computed);
    on_slot("output", frame.computed, frame.done);
  }
  for (std::uint32_t row = 0; row < replicas * slots; ++row) {
    const std::string replica = replicas > 1 ? "replica " + std::to_string(row / slots) + ", " : "";
    label("thread_name", row, replica + "slot " + std::to_string(row % slots));
  }
}

}  // namespace

std::string server_metadata(const std::string& server_version, bool repository) {
  json::array extensions{"classification", "model_configuration", "binary_tensor_data", "statistics"};
  if (repository) extensions.emplace_back("model_repository");
  return json::serialize(
      json::object{{"name", "millrace"}, {"version", server_version}, {"extensions", std::move(extensions)}});
}

std::string model_metadata(const models::Model& model) {
  return json::serialize(json::object{{"name", model.name()},
                                      {"versions", json::array{model.version()}},
                                      {"platform", "millrace"},
                                      {"inputs", inputs_of(model)},
                                      {"outputs", tensors(model.info().outputs)}});
}

std::string model_config(const models::Model& model) {
  return json::serialize(json::object{{"name", model.name()},
                                      {"platform", "millrace"},
                                      {"backend", "millrace"},
                                      {"max_batch_size", 0},
                                      {"input", configured_tensors(model.info().inputs)},
                                      {"output", configured_tensors(model.info().outputs)}});
}

std::string model_statistics(const std::vector<std::shared_ptr<models::Model>>& models) {
  const auto all = list(models, [](const auto& model) { return statistics(*model); });
  return json::serialize(json::object{{"model_stats", all}});
}

std::string model_description(const models::Model& model) {
  const auto& info = model.info();
  return json::serialize(
      json::object{{"name", model.name()},
                   {"version", model.version()},
                   {"digest", model.deployment().digest},
                   {"description", info.description},
                   {"inputs", inputs_of(model)},
                   {"outputs", tensors(info.outputs)},
                   {"labels", list(info.labels)},
                   {"preprocessing", json::object{{"layout", info.preprocessing.layout},
                                                  {"scale", list(info.preprocessing.scale)},
                                                  {"mean", list(info.preprocessing.mean)}}}});
}

std::string pipeline_status(const models::Snapshot& snapshot) {
  return of_every_model(snapshot, pipeline_of);
}

std::string partition_status(const models::Snapshot& snapshot) {
  return of_every_model(snapshot, partitions_of);
}

std::string deployments(const models::Snapshot& snapshot) {
  return of_every_model(snapshot, deployment_of);
}

std::string trace(const models::Snapshot& snapshot) {
  json::array events;
  std::size_t process = 0;
  for (const auto& model : snapshot.all()) add_events(*model, ++process, events);
  return json::serialize(json::object{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}});
}

std::string recent_errors(const std::vector<Failure>& failures) {
  std::multimap<std::int64_t, json::object, std::greater<>> newest_first;
  for (const Failure& failure : failures) {
    json::error_code code;
    const json::value body = json::parse(failure.body, code);
    const json::value* said = code || !body.is_object() ? nullptr : body.get_object().if_contains("error");
    const std::string message =
        said != nullptr && said->is_string() ? std::string(said->get_string()) : failure.body;
    newest_first.insert({failure.unix_ms, json::object{{"unix_ms", failure.unix_ms},
                                                       {"from", "request"},
                                                       {"status", failure.status},
                                                       {"target", shown(failure.target)},
                                                       {"message", shown(message)}}});
  }
  for (const log::Entry& entry : log::recent())
    newest_first.insert(
        {entry.unix_ms, json::object{{"unix_ms", entry.unix_ms},
                                     {"from", entry.component},
                                     {"level", entry.level == log::Level::kError ? "error" : "warning"},
                                     {"message", shown(entry.message)}}});
  const auto errors = list(newest_first, [](const auto& error) { return error.second; });
  return json::serialize(json::object{{"schema", 1}, {"errors", errors}});
}

}  // namespace millrace::server::http
