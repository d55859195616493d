/**
 * Asking all ranks of a group what they have called as a collective of which something is wrong.
 * Each rank tells once, to all, so that ranks that find out at the same time do not all have to be
 * answered.
 */
import type { Clock } from '../../util/clock.ts';
import type { Report } from './diagnosis.ts';

/** By global rank, in order; `null` of one that has not answered. */
export type Reports = ReadonlyMap<number, Report | null>;

export interface HangDiagnosticsEnvironment {
  /** Global ranks: this one's, and all of the group. */
  self: number;
  ranks: readonly number[];
  clock: Clock;
  /** What this rank has called as `seq`. */
  reportOn: (seq: number) => Report;
  tell: (news: { type: 'inquiry'; seq: number } | { type: 'report'; seq: number; report: Report }) => void;
}

interface Question {
  seq: number;
  /** Whether it need not be answered once the collective has ended. */
  isForDeadline: boolean;
  /** Longest wait for answers. */
  waitMs: number;
  conclude: (reports: Reports) => void;
}

interface Asked {
  readonly question: Question;
  readonly reports: Map<number, Report | null>;
  readonly cancel: () => void;
}

/**
 * Collectives whose reports are kept: ranks may ask about different ones at the same time, each
 * about one.
 */
const MAX_COLLECTIVES_TOLD = 16;

export class HangDiagnostics {
  readonly #env: HangDiagnosticsEnvironment;
  /** The reports of all ranks, by collective, those first asked about long ago first. */
  readonly #told = new Map<number, Map<number, Report>>();
  #asked: Asked | null = null;
  /**
   * Questions that came up during one for a deadline. They wait: the group fails with the first one
   * that concludes.
   */
  #waiting: Question[] = [];

  constructor(env: HangDiagnosticsEnvironment) {
    this.#env = env;
  }

  /**
   * Asks now, or once the question before it is dropped; `conclude` gets the answers, at most
   * `waitMs` after the asking.
   */
  ask(question: Question): void {
    if (!this.#asked) return this.#begin(question);
    // Every frame of a rank that calls something else finds the mismatch.
    const { seq, isForDeadline } = question;
    const isKnown = this.#waiting.some((other) => other.seq === seq && other.isForDeadline === isForDeadline);
    if (this.#asked.question.isForDeadline && !isKnown) this.#waiting.push(question);
  }

  /** Another rank, or this one, asks: tells all what this rank has called, once. */
  answer(seq: number): void {
    if (!this.#toldOf(seq).has(this.#env.self)) this.#tell(seq);
  }

  /** This rank has called `seq`: ranks that it has told otherwise must not go on blaming it. */
  called(seq: number): void {
    if (this.#told.get(seq)?.has(this.#env.self)) this.#tell(seq);
  }

  /** Rank `from` tells what it has called. */
  hear(seq: number, report: Report, from: number): void {
    this.#toldOf(seq).set(from, report);
    if (this.#asked?.question.seq !== seq) return;
    this.#asked.reports.set(from, report);
    this.#concludeIfComplete();
  }

  /** What this rank has heard of `seq` itself; `null` where nobody has asked about it. */
  heardOf(seq: number): Reports | null {
    return this.#told.has(seq) ? this.#reportsOn(seq) : null;
  }

  /** Collective `seq` has ended: it was late, not lost. */
  ended(seq: number): void {
    const isSettled = (question: Question): boolean => question.seq === seq && question.isForDeadline;
    this.#waiting = this.#waiting.filter((question) => !isSettled(question));
    if (!this.#asked || !isSettled(this.#asked.question)) return;
    this.#asked.cancel();
    this.#asked = null;
    const next = this.#waiting.reduce<Question | null>(moreUrgent, null);
    if (!next) return;
    this.#waiting.splice(this.#waiting.indexOf(next), 1);
    this.#begin(next);
  }

  /** Ends this rank's questions without a word. */
  drop(): void {
    this.#asked?.cancel();
    this.#asked = null;
    this.#waiting = [];
  }

  #reportsOn(seq: number): Map<number, Report | null> {
    const told = this.#toldOf(seq);
    return new Map(this.#env.ranks.toSorted((a, b) => a - b).map((rank) => [rank, told.get(rank) ?? null]));
  }

  #begin(question: Question): void {
    const { clock, tell } = this.#env;
    const { seq, waitMs } = question;
    const isAsked = this.#told.has(seq);
    this.answer(seq);
    const reports = this.#reportsOn(seq);
    this.#asked = { question, reports, cancel: clock.after(waitMs, () => this.#conclude()) };
    // Where another rank has asked before, all are telling.
    if (!isAsked) tell({ type: 'inquiry', seq });
    this.#concludeIfComplete();
  }

  #tell(seq: number): void {
    const { self, reportOn, tell } = this.#env;
    const report = reportOn(seq);
    this.#toldOf(seq).set(self, report);
    tell({ type: 'report', seq, report });
  }

  #toldOf(seq: number): Map<number, Report> {
    const known = this.#told.get(seq);
    if (known) return known;
    const [oldest] = this.#told.keys();
    if (this.#told.size >= MAX_COLLECTIVES_TOLD) this.#told.delete(oldest!);
    const told = new Map<number, Report>();
    this.#told.set(seq, told);
    return told;
  }

  #concludeIfComplete(): void {
    if (![...this.#asked!.reports.values()].includes(null)) this.#conclude();
  }

  #conclude(): void {
    const { question, reports } = this.#asked!;
    this.drop();
    question.conclude(reports);
  }
}

/**
 * A mismatch ends the group for certain. Among deadlines the latest collective counts: it is called
 * after all the others.
 */
function moreUrgent(one: Question | null, other: Question): Question {
  if (one === null || (one.isForDeadline && !other.isForDeadline)) return other;
  return one.isForDeadline === other.isForDeadline && other.seq > one.seq ? other : one;
}
