import { beforeEach, expect, test } from 'vitest';
import type { Report } from '../../src/collectives/diagnostics/diagnosis.ts';
import {
  HangDiagnostics,
  type HangDiagnosticsEnvironment,
  type Reports,
} from '../../src/collectives/diagnostics/hangDiagnostics.ts';
import { ManualClock } from '../manualClock.ts';

type Told = Parameters<HangDiagnosticsEnvironment['send']>[0];

const WAIT_MS = 1000;
const reportOf = (call: string): Report => ({ call, state: 'started', last: null });

let clock: ManualClock;
let told: Told[];
let concluded: Reports[];
let inquiry: HangDiagnostics;
let mine: Report;

/** Rank 2 of a group of ranks 5, 2 and 0. */
beforeEach(() => {
  clock = new ManualClock();
  told = [];
  concluded = [];
  mine = reportOf('mine');
  inquiry = new HangDiagnostics({
    ...{ self: 2, ranks: [5, 2, 0], clock },
    reportOn: () => mine,
    send: (news) => told.push(news),
  });
});

function ask(seq: number, isForDeadline = false): void {
  inquiry.ask({ seq, isForDeadline, waitMs: WAIT_MS, conclude: (reports) => concluded.push(reports) });
}

test('whoever asks tells its own report with the question, and has done with the last answer', () => {
  ask(7);
  expect(told).toEqual([
    { type: 'report', seq: 7, report: mine },
    { type: 'inquiry', seq: 7 },
  ]);
  inquiry.receive(7, reportOf('five'), 5);
  expect(concluded).toEqual([]);
  inquiry.receive(7, reportOf('zero'), 0);
  // In rank order, whatever the group's is.
  expect([...concluded[0]!]).toEqual([
    [0, reportOf('zero')],
    [2, mine],
    [5, reportOf('five')],
  ]);
  clock.advance(2 * WAIT_MS);
  expect(concluded).toHaveLength(1);
});

test('ranks that do not answer in time are null', () => {
  ask(7);
  inquiry.receive(7, reportOf('zero'), 0);
  clock.advance(WAIT_MS - 1);
  expect(concluded).toEqual([]);
  clock.advance(1);
  expect(concluded[0]!.get(5)).toBeNull();
  expect(concluded[0]!.get(0)).toEqual(reportOf('zero'));
});

test('a rank tells its report once, however many ask', () => {
  inquiry.answer(7);
  inquiry.answer(7);
  ask(7);
  expect(told).toEqual([{ type: 'report', seq: 7, report: mine }]);
});

test('answers to the question of another rank count for this one, which need not ask again', () => {
  inquiry.answer(7);
  inquiry.receive(7, reportOf('zero'), 0);
  inquiry.receive(7, reportOf('five'), 5);
  ask(7);
  expect(told).toHaveLength(1);
  expect(concluded).toHaveLength(1);
});

test('a rank asks one question at a time', () => {
  ask(7);
  ask(8);
  expect(told.filter(({ type }) => type === 'inquiry')).toEqual([{ type: 'inquiry', seq: 7 }]);
});

test('a question whose turn has not come is asked once the one before it is dropped', () => {
  ask(7, true);
  ask(8, true);
  inquiry.ended(7);
  expect(told.at(-1)).toEqual({ type: 'inquiry', seq: 8 });
  clock.advance(WAIT_MS);
  expect(concluded).toHaveLength(1);
});

test('a mismatch found during another question is not lost, and comes before deadlines', () => {
  ask(7, true);
  ask(9, true);
  ask(8);
  ask(8, true);
  inquiry.ended(7);
  expect(told.at(-1)).toEqual({ type: 'inquiry', seq: 8 });
  inquiry.ended(8);
  clock.advance(WAIT_MS);
  expect(concluded).toHaveLength(1);
});

test('of several deadlines that wait, the latest collective is asked about: ranks call them in order', () => {
  for (const seq of [7, 8, 10, 9]) ask(seq, true);
  inquiry.ended(7);
  expect(told.at(-1)).toEqual({ type: 'inquiry', seq: 10 });
  inquiry.ended(10);
  expect(told.at(-1)).toEqual({ type: 'inquiry', seq: 9 });
});

test('a question that waits is forgotten once its collective has ended', () => {
  ask(7, true);
  ask(8, true);
  inquiry.ended(8);
  inquiry.ended(7);
  clock.advance(2 * WAIT_MS);
  expect(concluded).toEqual([]);
  expect(told.filter(({ type }) => type === 'inquiry')).toHaveLength(1);
});

test('a rank that has told too early that it has not called a collective tells again once it has', () => {
  mine = { call: null, state: null, last: null };
  inquiry.answer(7);
  mine = reportOf('since');
  inquiry.called(7);
  inquiry.called(8);
  expect(told.at(-1)).toEqual({ type: 'report', seq: 7, report: reportOf('since') });
  expect(told).toHaveLength(2);
  ask(7);
  clock.advance(WAIT_MS);
  expect(concluded[0]!.get(2)).toEqual(reportOf('since'));
});

test('answers about one collective are kept while another is asked about', () => {
  inquiry.answer(7);
  inquiry.receive(7, reportOf('zero'), 0);
  inquiry.receive(7, reportOf('five'), 5);
  inquiry.answer(8);
  ask(7);
  expect(concluded).toHaveLength(1);
});

test('answers about collectives that were asked about long ago are forgotten', () => {
  for (const seq of [7, 8, 9]) inquiry.answer(seq);
  for (let seq = 100; seq < 200; seq++) inquiry.receive(seq, reportOf('five'), 5);
  told = [];
  inquiry.answer(7);
  expect(told).toHaveLength(1);
});

test('answers about another collective do not answer the question', () => {
  ask(7);
  inquiry.receive(8, reportOf('zero'), 0);
  inquiry.receive(8, reportOf('five'), 5);
  expect(concluded).toEqual([]);
  clock.advance(WAIT_MS);
  expect([...concluded[0]!.values()]).toEqual([null, mine, null]);
});

test.each([
  ['for a deadline needs no answer once its collective has ended', true, 7, 0],
  ['for a deadline still needs one when another has ended', true, 6, 1],
  ['for a mismatch needs one though its collective has ended here', false, 7, 1],
])('a question %s', (_what, isForDeadline, ended, conclusions) => {
  ask(7, isForDeadline);
  inquiry.ended(ended);
  clock.advance(WAIT_MS);
  expect(concluded).toHaveLength(conclusions);
});

test('a dropped question concludes nothing, and leaves room for the next', () => {
  ask(7);
  inquiry.drop();
  clock.advance(WAIT_MS);
  inquiry.receive(7, reportOf('zero'), 0);
  inquiry.receive(7, reportOf('five'), 5);
  expect(concluded).toEqual([]);
  ask(8);
  expect(told.at(-1)).toEqual({ type: 'inquiry', seq: 8 });
});
