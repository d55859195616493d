/**
 * Asking all ranks of a group what they have called as a collective of which something is wrong. Each rank tells once, to all,
 * so that ranks that find out at the same time do not all have to be answered.
 */
import type { Clock } from '../util/clock.ts';
import type { Report } from './diagnosis.ts';

/** By global rank, in order; `null` of one that has not answered. */
export type Reports = ReadonlyMap<number, Report | null>;

export interface InquiryEnvironment {
  /** Global ranks: this one's, and all of the group. */
  self: number;
  ranks: readonly number[];
  clock: Clock;
  /** What this rank has called as `seq`. */
  reportOn: (seq: number) => Report;
  tell: (news: { type: 'inquiry'; seq: number } | { type: 'report'; seq: number; report: Report }) => void;
}

/** A question of this rank's, under way. */
interface Question {
  readonly seq: number;
  readonly reports: Map<number, Report | null>;
  /** Whether it need not be answered once the collective has ended. */
  readonly isForDeadline: boolean;
  readonly conclude: () => void;
  readonly cancel: () => void;
}

export class Inquiry {
  readonly #env: InquiryEnvironment;
  /** The collective that was asked for last, and what ranks have told of it: a group fails once. */
  #seq = -1;
  #told = new Map<number, Report>();
  #question: Question | null = null;

  constructor(env: InquiryEnvironment) {
    this.#env = env;
  }

  /** Asks, unless this rank is asking already; `conclude` gets the answers, after `waitMs` at the latest. */
  ask(
    { seq, isForDeadline, waitMs }: { seq: number; isForDeadline: boolean; waitMs: number },
    conclude: (reports: Reports) => void,
  ): void {
    if (this.#question) return;
    const { ranks, clock, tell } = this.#env;
    const isAsked = this.#seq === seq;
    this.answer(seq);
    const reports = new Map(ranks.toSorted((a, b) => a - b).map((rank) => [rank, this.#told.get(rank) ?? null]));
    const end = (): void => {
      this.drop();
      conclude(reports);
    };
    this.#question = { seq, reports, isForDeadline, conclude: end, cancel: clock.after(waitMs, end) };
    // Where another rank has asked before, all are telling.
    if (!isAsked) tell({ type: 'inquiry', seq });
    this.#concludeIfComplete();
  }

  /** Another rank, or this one, asks: tells all what this rank has called, once. */
  answer(seq: number): void {
    const { self, reportOn, tell } = this.#env;
    this.#turnTo(seq);
    if (this.#told.has(self)) return;
    const report = reportOn(seq);
    this.#told.set(self, report);
    tell({ type: 'report', seq, report });
  }

  /** Rank `from` tells what it has called. */
  hear(seq: number, report: Report, from: number): void {
    this.#turnTo(seq);
    this.#told.set(from, report);
    if (this.#question?.seq !== seq) return;
    this.#question.reports.set(from, report);
    this.#concludeIfComplete();
  }

  /** Collective `seq` has ended: it was late, not lost. */
  ended(seq: number): void {
    if (this.#question?.seq === seq && this.#question.isForDeadline) this.drop();
  }

  /** Ends this rank's question without a word. */
  drop(): void {
    this.#question?.cancel();
    this.#question = null;
  }

  #turnTo(seq: number): void {
    if (this.#seq === seq) return;
    this.#seq = seq;
    this.#told = new Map();
  }

  #concludeIfComplete(): void {
    const question = this.#question;
    if (question && ![...question.reports.values()].includes(null)) question.conclude();
  }
}
