// Tests onnxruntime_goal.mjs. Run: node --test tests/bench/test_onnxruntime_goal.mjs
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {judge} from './onnxruntime_goal.mjs';

const GOAL = {ratio: 0.5, level: 'avx512vnni'};
const entry = (net, ratio, more = {}) => ({net, difference_us: 10, variants: {int8: {avx2: {ratio: 0.9}, avx512vnni: {ratio}}}, ...more});

test('met where every net holds at the level', () => {
  assert.equal(judge(['a', 'b'], [entry('a', 0.5), entry('b', 0.1), entry('c', 2)], GOAL).met, true);
});
test('missed where one variant of one net does not hold', () => {
  const {met, reason} = judge(['a', 'b'], [entry('a', 0.2), entry('b', 0.51)], GOAL);
  assert.equal(met, false);
  assert.match(reason, /b\/int8 0.51/);
});
test('nothing is said where a net is missing', () => assert.equal(judge(['a', 'b'], [entry('a', 0.2)], GOAL).met, null));
test('nothing is said where the level is missing', () => {
  assert.equal(judge(['a'], [{net: 'a', difference_us: 10, variants: {int8: {avx2: {ratio: 0.2}}}}], GOAL).met, null);
  assert.equal(judge(['a'], [{net: 'a', difference_us: 10, variants: {}}], GOAL).met, null);
});
test('nothing is said where the difference is not positive: its ratio would be negative and pass', () => {
  assert.equal(judge(['a'], [entry('a', -3, {difference_us: -1})], GOAL).met, null);
  assert.equal(judge(['a'], [entry('a', Infinity, {difference_us: 0})], GOAL).met, null);
});
test('a ratio that is no number does not hold', () => assert.equal(judge(['a'], [entry('a', NaN)], GOAL).met, false));
test('nothing is said where the goal names no net', () => assert.equal(judge([], [], GOAL).met, null));
