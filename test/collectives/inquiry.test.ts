import { beforeEach, expect, test } from 'vitest';
import type { Report } from '../../src/collectives/diagnosis.ts';
import { Inquiry, type InquiryEnvironment, type Reports } from '../../src/collectives/inquiry.ts';
import { ManualClock } from '../manualClock.ts';

type Told = Parameters<InquiryEnvironment['tell']>[0];

const WAIT_MS = 1000;
const reportOf = (call: string): Report => ({ call, state: 'started', last: null });
const mine = reportOf('mine');

let clock: ManualClock;
let told: Told[];
let concluded: Reports[];
let inquiry: Inquiry;

/** Rank 2 of a group of ranks 5, 2 and 0. */
beforeEach(() => {
  clock = new ManualClock();
  told = [];
  concluded = [];
  inquiry = new Inquiry({
    ...{ self: 2, ranks: [5, 2, 0], clock },
    reportOn: () => mine,
    tell: (news) => told.push(news),
  });
});

function ask(seq: number, isForDeadline = false): void {
  inquiry.ask({ seq, isForDeadline, waitMs: WAIT_MS }, (reports) => concluded.push(reports));
}

test('whoever asks tells its own report with the question, and has done with the last answer', () => {
  ask(7);
  expect(told).toEqual([
    { type: 'report', seq: 7, report: mine },
    { type: 'inquiry', seq: 7 },
  ]);
  inquiry.hear(7, reportOf('five'), 5);
  expect(concluded).toEqual([]);
  inquiry.hear(7, reportOf('zero'), 0);
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
  inquiry.hear(7, reportOf('zero'), 0);
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
  inquiry.hear(7, reportOf('zero'), 0);
  inquiry.hear(7, reportOf('five'), 5);
  ask(7);
  expect(told).toHaveLength(1);
  expect(concluded).toHaveLength(1);
});

test('a rank asks one question at a time', () => {
  ask(7);
  ask(8);
  expect(told.filter(({ type }) => type === 'inquiry')).toEqual([{ type: 'inquiry', seq: 7 }]);
});

test('answers about another collective do not answer the question', () => {
  ask(7);
  inquiry.hear(8, reportOf('zero'), 0);
  inquiry.hear(8, reportOf('five'), 5);
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
  inquiry.hear(7, reportOf('zero'), 0);
  inquiry.hear(7, reportOf('five'), 5);
  expect(concluded).toEqual([]);
  ask(8);
  expect(told.at(-1)).toEqual({ type: 'inquiry', seq: 8 });
});
