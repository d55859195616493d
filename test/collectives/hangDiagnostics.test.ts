import { beforeEach, expect, test } from 'vitest';
import type { HangReport } from '../../src/collectives/diagnostics/diagnosis.ts';
import {
  HangDiagnostics,
  type HangDiagnosticsEnvironment,
  type HangReports,
} from '../../src/collectives/diagnostics/hangDiagnostics.ts';
import { ManualClock } from '../manualClock.ts';

type Message = Parameters<HangDiagnosticsEnvironment['send']>[0];

const WAIT_MS = 1000;
const inquiry = (seq: number) => ({ seq, waitedMs: 5 * WAIT_MS, waitMs: WAIT_MS });
const reportOf = (call: string): HangReport => ({ call, state: 'started', last: null, idleMs: 0 });

let clock: ManualClock;
let sent: Message[];
let concluded: HangReports[];
let diagnostics: HangDiagnostics;
let mine: HangReport;

/** The tested rank is rank 2 in a group of ranks 5, 2 and 0. */
beforeEach(() => {
  clock = new ManualClock();
  sent = [];
  concluded = [];
  mine = reportOf('mine');
  diagnostics = new HangDiagnostics({
    self: 2,
    ranks: [5, 2, 0],
    clock,
    reportOn: () => mine,
    send: (message) => sent.push(message),
  });
});

function ask(seq: number, isForDeadline = false): void {
  diagnostics.ask({ ...inquiry(seq), isForDeadline, conclude: (reports) => concluded.push(reports) });
}

test('a rank that asks all ranks about a collective also sends its own report; the question ends when the last answer arrives', () => {
  ask(7);
  expect(sent).toEqual([
    { type: 'report', seq: 7, report: mine },
    { type: 'inquiry', ...inquiry(7) },
  ]);
  diagnostics.receive(7, reportOf('five'), 5);
  expect(concluded).toEqual([]);
  diagnostics.receive(7, reportOf('zero'), 0);
  // The reports are in the order of global ranks, not in the order of the group.
  expect([...concluded[0]!]).toEqual([
    [0, reportOf('zero')],
    [2, mine],
    [5, reportOf('five')],
  ]);
  clock.advance(2 * WAIT_MS);
  expect(concluded).toHaveLength(1);
});

test('the report of a rank that does not answer in time is null', () => {
  ask(7);
  diagnostics.receive(7, reportOf('zero'), 0);
  clock.advance(WAIT_MS - 1);
  expect(concluded).toEqual([]);
  clock.advance(1);
  expect(concluded[0]!.get(5)).toBeNull();
  expect(concluded[0]!.get(0)).toEqual({ ...reportOf('zero'), idleMs: WAIT_MS });
});

test('a rank sends its report about a collective only once, even if several ranks ask for it', () => {
  diagnostics.answer(inquiry(7));
  diagnostics.answer(inquiry(7));
  ask(7);
  expect(sent).toEqual([{ type: 'report', seq: 7, report: mine }]);
});

test("a rank does not ask a question if it has already received the answers from another rank's question", () => {
  diagnostics.answer(inquiry(7));
  diagnostics.receive(7, reportOf('zero'), 0);
  diagnostics.receive(7, reportOf('five'), 5);
  ask(7);
  expect(sent).toHaveLength(1);
  expect(concluded).toHaveLength(1);
});

test('a rank asks its second question only after the first question has ended', () => {
  ask(7);
  ask(8);
  expect(sent.filter(({ type }) => type === 'inquiry')).toEqual([{ type: 'inquiry', ...inquiry(7) }]);
});

test('a waiting question is asked when the current question is dropped', () => {
  ask(7, true);
  ask(8, true);
  diagnostics.ended(7);
  expect(sent.at(-1)).toEqual({ type: 'inquiry', ...inquiry(8) });
  clock.advance(WAIT_MS);
  expect(concluded).toHaveLength(1);
});

test('a waiting question about a mismatch is asked before a waiting question about a deadline', () => {
  ask(7, true);
  ask(9, true);
  ask(8);
  ask(8, true);
  diagnostics.ended(7);
  expect(sent.at(-1)).toEqual({ type: 'inquiry', ...inquiry(8) });
  diagnostics.ended(8);
  clock.advance(WAIT_MS);
  expect(concluded).toHaveLength(1);
});

test('of several waiting questions about deadlines, the one about the latest collective is asked first', () => {
  for (const seq of [7, 8, 10, 9]) ask(seq, true);
  diagnostics.ended(7);
  expect(sent.at(-1)).toEqual({ type: 'inquiry', ...inquiry(10) });
  diagnostics.ended(10);
  expect(sent.at(-1)).toEqual({ type: 'inquiry', ...inquiry(9) });
});

test('a waiting question is dropped when its collective ends', () => {
  ask(7, true);
  ask(8, true);
  diagnostics.ended(8);
  diagnostics.ended(7);
  clock.advance(2 * WAIT_MS);
  expect(concluded).toEqual([]);
  expect(sent.filter(({ type }) => type === 'inquiry')).toHaveLength(1);
});

test('a rank that has reported a collective as not called sends another report when it calls the collective', () => {
  mine = { call: null, state: null, last: null, idleMs: 0 };
  diagnostics.answer(inquiry(7));
  mine = reportOf('since');
  diagnostics.called(7);
  diagnostics.called(8);
  expect(sent.at(-1)).toEqual({ type: 'report', seq: 7, report: reportOf('since') });
  expect(sent).toHaveLength(2);
  ask(7);
  clock.advance(WAIT_MS);
  expect(concluded[0]!.get(2)).toEqual({ ...reportOf('since'), idleMs: WAIT_MS });
});

test('answers about one collective are kept while other ranks ask about another one', () => {
  diagnostics.answer(inquiry(7));
  diagnostics.receive(7, reportOf('zero'), 0);
  diagnostics.receive(7, reportOf('five'), 5);
  diagnostics.answer(inquiry(8));
  ask(7);
  expect(concluded).toHaveLength(1);
});

test('a rank forgets its reports about old collectives, and sends a report again if it is asked again', () => {
  for (const seq of [7, 8, 9]) diagnostics.answer(inquiry(seq));
  for (let seq = 100; seq < 200; seq++) diagnostics.receive(seq, reportOf('five'), 5);
  sent = [];
  diagnostics.answer(inquiry(7));
  expect(sent).toHaveLength(1);
});

test('a question is not ended by answers about another collective', () => {
  ask(7);
  diagnostics.receive(8, reportOf('zero'), 0);
  diagnostics.receive(8, reportOf('five'), 5);
  expect(concluded).toEqual([]);
  clock.advance(WAIT_MS);
  expect([...concluded[0]!.values()]).toEqual([null, { ...mine, idleMs: WAIT_MS }, null]);
});

test.each([
  ['a deadline is dropped when its collective ends', true, 7, 0],
  ['a deadline still waits for answers when another collective ends', true, 6, 1],
  ['a mismatch still waits for answers when its collective ends on this rank', false, 7, 1],
])('a question about %s', (_what, isForDeadline, ended, conclusions) => {
  ask(7, isForDeadline);
  diagnostics.ended(ended);
  clock.advance(WAIT_MS);
  expect(concluded).toHaveLength(conclusions);
});

test('a dropped question gives no result, and the next question can be asked', () => {
  ask(7);
  diagnostics.drop();
  clock.advance(WAIT_MS);
  diagnostics.receive(7, reportOf('zero'), 0);
  diagnostics.receive(7, reportOf('five'), 5);
  expect(concluded).toEqual([]);
  ask(8);
  expect(sent.at(-1)).toEqual({ type: 'inquiry', ...inquiry(8) });
});
