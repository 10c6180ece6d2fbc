/* The interface between Millrace and a plugin: a shared library that computes operators which Millrace does not know, or
 * computes known operators in another way. The header is plain C and needs nothing but this file.
 *
 * A plugin exports one function, get_plugin(), which returns a table of four functions:
 *
 *   partition()  selects nodes of a model that become one block             when a model is compiled, in a child process
 *   compile()    offers hardware for such a block, with cost and cycles     the same
 *   build()      writes the SystemVerilog of the hardware that was chosen   the same
 *   run()        computes a frame of the block on an emulated card          in the process of the emulated card, or of
 *                                                                           `millrace verify`
 *
 * millrace_plugin.hpp has helpers for plugins in C++. runtime/plugins/README.md is a guide.
 *
 * Ownership. Every pointer that Millrace passes is valid until the function returns. The plugin owns every pointer that
 * it passes to a function of millrace_answer, and Millrace copies what it needs before that function returns. Texts end
 * with a zero byte and are UTF-8. The table that get_plugin() returns must stay valid until the library is unloaded.
 *
 * Threads. partition(), compile() and build() are called by one thread. run() may be called by several threads at once,
 * so it must not change shared data without a lock.
 *
 * Errors. A function returns 0 on success. To report an error, it calls answer->fail() with a sentence and returns
 * another number. A C++ exception must not leave a function; Millrace reports one like an error, but only if the library
 * was built with a compatible C++ compiler. Each question to partition(), compile() or build() must be answered within
 * 30 seconds. A crash there becomes an error message of the compiler. If run() fails on an emulated card, the frame is
 * lost, its client gets an error, and the host sets the card up again for the next frames. The same happens after a crash
 * of run(), which ends the card's process, and if run() does not return within 10 seconds.
 *
 * Versions. Millrace refuses a plugin whose `abi` is not MILLRACE_PLUGIN_ABI. Every change of this header that a
 * compiled plugin could notice raises that number. */
#ifndef MILLRACE_PLUGIN_H
#define MILLRACE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MILLRACE_PLUGIN_ABI 1u

/* Constants with more elements than this, and constants that are not finite, are described to partition() without their
 * elements. */
#define MILLRACE_MOST_CONSTANT_ELEMENTS 65536u

/* The type of a tensor's elements, together with a number of bits. */
enum millrace_kind {
  MILLRACE_SIGNED = 0,   /* two's complement */
  MILLRACE_UNSIGNED = 1,
  MILLRACE_BIPOLAR = 2,  /* -1 or +1, in 1 bit */
  MILLRACE_FLOAT = 3     /* IEEE 754; hardware does not take it */
};

/* A value of the model's graph. If elements are given, they are in row-major order. */
typedef struct millrace_value {
  const char* name;
  uint32_t kind;           /* enum millrace_kind */
  uint32_t bits;
  const int64_t* shape;    /* includes the batch axis, which is 1 */
  size_t axes;
  uint32_t is_constant;    /* 1 if the value does not depend on the model's inputs */
  const int64_t* integers; /* the elements of a constant of integers, or NULL */
  const float* reals;      /* the elements of a constant of floats, or NULL */
  size_t element_count;    /* of `integers` or `reals` */
} millrace_value;

/* An attribute of an ONNX operator. A number is a list with one entry. Lists that the attribute does not have are
 * NULL with the count 0. */
typedef struct millrace_attribute {
  const char* name;
  const int64_t* integers;
  size_t integer_count;
  const float* reals;
  size_t real_count;
  const char* text; /* NULL unless the attribute is a text */
} millrace_attribute;

typedef struct millrace_node {
  const char* name;       /* unique in the graph */
  const char* domain;     /* empty for the standard domain, ai.onnx */
  const char* type;       /* "Conv" */
  const int64_t* inputs;  /* indices into millrace_graph.values; -1 for an optional input that is left out */
  size_t input_count;
  const int64_t* outputs; /* as `inputs` */
  size_t output_count;
  const millrace_attribute* attributes;
  size_t attribute_count;
  uint32_t is_taken;      /* 1 if an earlier plugin has selected the node; it cannot be selected again */
} millrace_node;

/* A model after import, as `millrace plan --dump-after import` prints it: quantised operators are in QDQ form, between
 * DequantizeLinear and QuantizeLinear nodes, and every shape is known. The producer of a value precedes its readers. */
typedef struct millrace_graph {
  const char* name;
  const millrace_value* values;
  size_t value_count;
  const millrace_node* nodes;
  size_t node_count;
  const int64_t* inputs; /* indices into `values` */
  size_t input_count;
  const int64_t* outputs;
  size_t output_count;
} millrace_graph;

/* Nodes that become one block. Its inputs are the values that these nodes read and do not produce, in the order in which
 * the nodes read them, without constants. Its outputs are the values that these nodes produce and that other nodes read
 * or that are outputs of the model. All inputs and outputs must be integers, so the nodes usually begin with
 * DequantizeLinear and end with QuantizeLinear. A DequantizeLinear node that other nodes read, too, stays for them. */
typedef struct millrace_subgraph {
  const char* name;     /* the block's name in plans: 1 to 64 letters, digits, _ - . */
  const char* device;   /* where the block runs: "card" */
  const char* runner;   /* which function computes the block: passed to compile(), build() and run(); a name */
  const char* settings; /* passed to compile(), build() and run(), at most 16 MiB: constants, for example. May be NULL */
  const size_t* nodes;  /* indices into millrace_graph.nodes, each once */
  size_t node_count;
} millrace_subgraph;

/* An input or output of a block. Elements are in row-major order. An ONNX tensor [1, C, H, W] has the shape [H, W, C];
 * every other tensor has the shape [1, 1, N] with the elements in the order of the ONNX file. In memory, an element has
 * one byte up to 8 bits, two bytes up to 16 and four bytes up to 32, little-endian, sign- or zero-extended; a bipolar
 * element is the byte 1 or 255. */
typedef struct millrace_tensor {
  uint32_t kind; /* enum millrace_kind */
  uint32_t bits;
  const uint32_t* shape;
  size_t axes;
  uint64_t elements;
} millrace_tensor;

typedef struct millrace_block {
  const char* name;
  const char* runner;   /* as in millrace_subgraph */
  const char* settings; /* as in millrace_subgraph; never NULL */
  const millrace_tensor* inputs;
  size_t input_count;
  const millrace_tensor* outputs;
  size_t output_count;
} millrace_block;

/* Possible hardware for a block. Counts are primitives of the FPGA, as Yosys or Vivado count them. */
typedef struct millrace_candidate {
  const char* id;              /* unique among the block's candidates; a name */
  uint64_t interval_cycles;    /* cycles per frame, at least the number of beats of each stream */
  uint64_t latency_cycles;     /* from the input beat that completes an output beat to that output beat; at least 1 */
  double lead;                 /* fraction of the frame's input that the first output beat needs: above 0, at most 1 */
  const uint32_t* input_lanes; /* elements per beat of each input; each divides the number of elements */
  const uint32_t* output_lanes;
  uint64_t memory_bytes;       /* read from the card's memory per frame */
  int64_t lut, lutram, ff, dsp, ramb18, ramb36, uram; /* `lut` includes `lutram` */
} millrace_candidate;

/* The functions with which a plugin answers. `context` is the first argument of each. */
typedef struct millrace_answer {
  void* context;
  void (*select)(void* context, const millrace_subgraph* subgraph);          /* in partition() */
  void (*offer)(void* context, const millrace_candidate* candidate);         /* in compile() */
  void (*add_file)(void* context, const char* name, const char* content);    /* in build() */
  void (*fail)(void* context, const char* message);                          /* in every function */
} millrace_answer;

typedef struct millrace_plugin {
  uint32_t abi;     /* MILLRACE_PLUGIN_ABI */
  const char* name; /* for messages and plans: 1 to 64 letters, digits, _ - . */

  /* Calls answer->select() for each subgraph that the plugin takes. Subgraphs must not overlap. */
  int (*partition)(const millrace_graph* graph, const millrace_answer* answer);

  /* Calls answer->offer() for each possible hardware of a block that partition() selected. Without an offer, the block
   * runs on emulated cards only. */
  int (*compile)(const millrace_block* block, const millrace_answer* answer);

  /* Writes the hardware of a candidate with answer->add_file(). The file "<module>.sv" must contain a module of that
   * name. All file names begin with `module` and end with .sv, or with .hex for data that $readmemh reads.
   *
   * The module has no parameters. Its ports are clk and rst (synchronous, active high), and a stream for each input and
   * output. A block with one input has the ports s_valid, s_ready and s_data; with several inputs they are s0_valid,
   * s0_ready, s0_data, s1_valid and so on. An output has m_valid, m_ready and m_data, or m0_valid and so on. A beat
   * passes in a cycle in which valid and ready are 1. A beat has `lanes` elements, the first in the lowest bits.
   * kernels/rtl/README.md describes such streams. */
  int (*build)(const millrace_block* block, const char* candidate, const char* module, const millrace_answer* answer);

  /* Computes one frame. inputs[i] and outputs[i] point to the elements of block->inputs[i] and block->outputs[i]. The
   * result must equal that of the module which build() writes, in every byte. */
  int (*run)(const millrace_block* block, const void* const* inputs, void* const* outputs,
             const millrace_answer* answer);
} millrace_plugin;

/* The only symbol that a plugin must export. Returns NULL if the plugin cannot work on this machine. */
const millrace_plugin* get_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
