/**
 * Hang diagnostics: asks all ranks of a group which call they made of a collective that failed.
 * Each rank reports once, to all, so that ranks that ask at the same time share the reports.
 */
import type { Clock } from '../../util/clock.ts';
import type { Report } from './diagnosis.ts';

/** By global rank, ascending; `null` if a rank has not answered. */
export type Reports = ReadonlyMap<number, Report | null>;

export interface HangDiagnosticsEnvironment {
  /** Global rank of this rank. */
  self: number;
  /** Global ranks of the group. */
  ranks: readonly number[];
  clock: Clock;
  /** The report of this rank on `seq`. */
  reportOn: (seq: number) => Report;
  send: (message: { type: 'inquiry'; seq: number } | { type: 'report'; seq: number; report: Report }) => void;
}

interface Question {
  seq: number;
  /** Whether the question is dropped once the collective has ended. */
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

/** Collectives whose reports are kept: each rank may ask about a different one. */
const MAX_COLLECTIVES_REPORTED = 16;

export class HangDiagnostics {
  readonly #env: HangDiagnosticsEnvironment;
  /** The reports of all ranks by collective, oldest question first. */
  readonly #reports = new Map<number, Map<number, Report>>();
  #asked: Asked | null = null;
  /**
   * Questions asked while one for a deadline is open. They wait, because the group fails with the
   * first question that concludes.
   */
  #waiting: Question[] = [];

  constructor(env: HangDiagnosticsEnvironment) {
    this.#env = env;
  }

  /**
   * Asks now, or once the open question is dropped. `conclude` receives the reports at most
   * `waitMs` after the inquiry.
   */
  ask(question: Question): void {
    if (!this.#asked) return this.#begin(question);
    // Every frame of a mismatched op asks again.
    const { seq, isForDeadline } = question;
    const isKnown = this.#waiting.some((other) => other.seq === seq && other.isForDeadline === isForDeadline);
    if (this.#asked.question.isForDeadline && !isKnown) this.#waiting.push(question);
  }

  /** Sends the report of this rank to all, once per collective. */
  answer(seq: number): void {
    if (!this.#reportsFor(seq).has(this.#env.self)) this.#sendReport(seq);
  }

  /** This rank has called `seq`. If it reported otherwise before, it reports again. */
  called(seq: number): void {
    if (this.#reports.get(seq)?.has(this.#env.self)) this.#sendReport(seq);
  }

  /** A report of rank `from` has arrived. */
  receive(seq: number, report: Report, from: number): void {
    this.#reportsFor(seq).set(from, report);
    if (this.#asked?.question.seq !== seq) return;
    this.#asked.reports.set(from, report);
    this.#concludeIfComplete();
  }

  /** The reports on `seq`; `null` if no rank has asked about it. */
  reportsOf(seq: number): Reports | null {
    return this.#reports.has(seq) ? this.#allReports(seq) : null;
  }

  /** Collective `seq` has ended, so questions for its deadline are dropped. */
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

  /** Drops all questions of this rank. */
  drop(): void {
    this.#asked?.cancel();
    this.#asked = null;
    this.#waiting = [];
  }

  #allReports(seq: number): Map<number, Report | null> {
    const known = this.#reportsFor(seq);
    return new Map(this.#env.ranks.toSorted((a, b) => a - b).map((rank) => [rank, known.get(rank) ?? null]));
  }

  #begin(question: Question): void {
    const { clock, send } = this.#env;
    const { seq, waitMs } = question;
    const isAsked = this.#reports.has(seq);
    this.answer(seq);
    const reports = this.#allReports(seq);
    this.#asked = { question, reports, cancel: clock.after(waitMs, () => this.#conclude()) };
    // If another rank has asked before, all ranks report already.
    if (!isAsked) send({ type: 'inquiry', seq });
    this.#concludeIfComplete();
  }

  #sendReport(seq: number): void {
    const { self, reportOn, send } = this.#env;
    const report = reportOn(seq);
    this.#reportsFor(seq).set(self, report);
    send({ type: 'report', seq, report });
  }

  #reportsFor(seq: number): Map<number, Report> {
    const known = this.#reports.get(seq);
    if (known) return known;
    const [oldest] = this.#reports.keys();
    if (this.#reports.size >= MAX_COLLECTIVES_REPORTED) this.#reports.delete(oldest!);
    const reports = new Map<number, Report>();
    this.#reports.set(seq, reports);
    return reports;
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
function moreUrgent(first: Question | null, second: Question): Question {
  if (first === null || (first.isForDeadline && !second.isForDeadline)) return second;
  return first.isForDeadline === second.isForDeadline && second.seq > first.seq ? second : first;
}
