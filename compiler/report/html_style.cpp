#include "compiler/report/html_parts.hpp"

namespace millrace::compiler::report {

const char* const kStyle = R"css(
:root {
  color-scheme: light;
  --ground: #f6f7f9; --panel: #fff; --ink: #16202a; --soft: #56646f; --line: #d8dee4; --track: #e3e8ed;
  --a: #0b6e99; --b: #b85c00; --c: #6a4fb0; --d: #1a7f43; --pale: #9fcbe0; --bad: #b3261e; --card: #e8f3f8;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    color-scheme: dark;
    --ground: #10161b; --panel: #182027; --ink: #e6edf2; --soft: #9fb0bd; --line: #2c3842; --track: #2a3640;
    --a: #5bb8de; --b: #f0a04b; --c: #b39df0; --d: #5fc98a; --pale: #2c6480; --bad: #ff8f85; --card: #1d3441;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--ground); color: var(--ink); overflow-wrap: anywhere;
  font: 16px/1.45 system-ui, "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums;
}
header, main, footer { max-width: 72rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.25rem; }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.125rem; margin: 0 0 .25rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .35rem 0; }
bdi, .name { unicode-bidi: isolate; }
section { background: var(--panel); border: 1px solid var(--line); border-radius: .75rem; padding: 1rem; margin: 1rem 0; }
footer { padding-bottom: 2rem; color: var(--soft); font-size: .875rem; }
a { color: var(--a); }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin-top: .75rem; font-size: .9375rem; }
:focus-visible { outline: 3px solid var(--a); outline-offset: 2px; }
.hint { color: var(--soft); font-size: .875rem; margin: 0 0 .75rem; max-width: 46rem; }
.notice { border-left: 4px solid var(--b); padding: .5rem .75rem; margin: .75rem 0; background: var(--panel); }
figure { margin: 0; }

.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 1rem 0 0; }
.tiles div { border-left: 3px solid var(--a); padding-left: .75rem; }
.tiles dt { color: var(--soft); font-size: .875rem; }
.tiles dd { margin: 0; font-size: 1.375rem; font-weight: 600; }
.limits { padding-left: 1.1rem; margin: .35rem 0; }
.keys { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; margin: 0 0 .75rem; padding: 0; font-size: .875rem; }
.keys svg { width: .8rem; height: .8rem; margin-right: .4rem; vertical-align: -.05rem; }

svg.pipeline { display: none; max-width: 100%; height: auto; }
svg.pipeline.narrow { display: block; margin: 0 auto; }
.pipeline rect { fill: var(--card); stroke: var(--a); stroke-width: 1.5; }
.pipeline .host rect { fill: var(--panel); stroke: var(--soft); stroke-dasharray: 5 4; }
.pipeline path { fill: none; stroke-width: 2; }
.pipeline .cable { stroke: var(--a); }
.pipeline .bus { stroke: var(--soft); stroke-dasharray: 5 4; }
.pipeline .tip { fill: var(--soft); stroke: none; }
svg text { fill: var(--ink); font-size: 14px; }
svg text.name { font-size: 16px; font-weight: 600; }
svg text.soft { fill: var(--soft); font-size: 13px; }
svg text.label { font-size: 13px; }

.rows { list-style: none; margin: 0; padding: 0; }
.rows > li { display: grid; grid-template-columns: 12rem minmax(0, 1fr); gap: 0 1rem; padding: .45rem 0; border-top: 1px solid var(--line); align-items: center; }
.rows .what { font-weight: 600; }
.rows .what small { display: block; font-weight: 400; color: var(--soft); }
.rows .figures { grid-column: 2; display: flex; flex-wrap: wrap; gap: 0 1rem; font-size: .875rem; color: var(--soft); }
.rows .figures b { color: var(--ink); font-weight: 600; }
.rows .axis { grid-column: 2; position: relative; height: 1.3rem; font-size: .8125rem; color: var(--soft); }
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.axis span.first { transform: none; }
.axis span.last { transform: translateX(-100%); }
svg.bar { display: block; width: 100%; height: 1.1rem; }
svg.bar.thin { height: .7rem; }
svg.bar.triple { height: 1.5rem; }
.track { fill: var(--track); }
.a { fill: var(--a); } .b { fill: var(--b); } .c { fill: var(--c); } .d { fill: var(--d); } .pale { fill: var(--pale); } .over { fill: var(--bad); }
.grid { stroke: var(--line); stroke-width: 1; vector-effect: non-scaling-stroke; }

.regions { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 0 2rem; }
.used { list-style: none; margin: 0; padding: 0; font-size: .875rem; }
.used li { padding: .2rem 0; }
.used div { display: flex; justify-content: space-between; gap: .5rem; }

table { border-collapse: collapse; width: 100%; margin-top: .5rem; font-size: .9375rem; }
th, td { padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th { font-weight: 500; color: var(--soft); font-size: .875rem; }
td:not(.text), thead th:not(.text) { white-space: nowrap; }
th[scope=row] { min-width: 7rem; }
td.text { min-width: 4rem; }
td.long { min-width: 9rem; }
.wide { font-size: .875rem; }
.wide th, .wide td { padding-right: .6rem; }
thead th:first-child, th[scope=row], td.text, th.text { text-align: left; }
th[scope=row] { color: var(--ink); font-weight: 600; font-size: inherit; }
tr.chosen th[scope=row]::after { content: " (this plan)"; font-weight: 400; color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1rem; max-width: 60rem; }
.charts svg { display: block; width: 100%; height: auto; }
.charts figcaption { font-size: .875rem; color: var(--soft); }
.charts .front { fill: none; stroke: var(--a); stroke-width: 2; }
.charts text { font-size: 12px; fill: var(--soft); }
.charts circle { fill: var(--panel); stroke: var(--soft); stroke-width: 1.5; }
.charts circle.best { fill: var(--a); stroke: var(--a); }
.charts circle.chosen { fill: none; stroke: var(--b); stroke-width: 2.5; }

@media screen and (min-width: 47rem) and (max-width: 71.99rem) {
  svg.pipeline.narrow { display: none; }
  svg.pipeline.middle { display: block; }
}
@media screen and (min-width: 72rem) {
  svg.pipeline.narrow { display: none; }
  svg.pipeline.wide { display: block; }
}
@media screen and (max-width: 46.99rem) {
  header, main, footer { padding: 0 .75rem; }
  header { padding-top: 1rem; }
  section { padding: .75rem; }
  .rows > li { grid-template-columns: minmax(0, 1fr); gap: .2rem; }
  .rows .figures, .rows .axis { grid-column: 1; }
}
@media screen and (max-width: 55.99rem) {
  table.stack, .stack tbody { display: block; }
  .stack thead { display: none; }
  .stack tr { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 0 1.25rem; border-top: 1px solid var(--line); padding: .5rem 0; }
  .stack th, .stack td { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 .5rem; border: 0; padding: 0; min-width: 0; }
  .stack th, .stack td.text { grid-column: 1 / -1; justify-content: flex-start; }
  .stack td::before { content: attr(data-label); color: var(--soft); font-size: .875rem; flex: none; }
  .stack td.text { flex-wrap: nowrap; }
  .stack td.text::before { min-width: 5rem; }
  .stack td:empty { display: none; }
}
@media print {
  @page { margin: 14mm; }
  body { background: #fff; font-size: 10.5pt; }
  header, main, footer { max-width: none; padding: 0; }
  nav { display: none; }
  section { border: 0; border-top: 1px solid var(--line); border-radius: 0; padding: .75rem 0 0; margin: .75rem 0; }
  svg.pipeline.narrow, svg.pipeline.wide { display: none; }
  svg.pipeline.middle { display: block; }
  .rows > li, tr, .regions > div, figure, .tiles { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  svg, .keys { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
)css";

}  // namespace millrace::compiler::report
