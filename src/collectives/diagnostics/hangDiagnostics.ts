/**
 * Hang diagnostics: after a deadline or a mismatch, and before the group fails, a rank asks all
 * ranks of the group which collective they called. Each rank sends its report to all ranks. So
 * ranks that ask at the same time share the reports.
 */
import type { Clock } from '../../util/clock.ts';
import type { Report } from './diagnosis.ts';

/** Reports by global rank, in ascending order; `null` if a rank has not answered. */
export type Reports = ReadonlyMap<number, Report | null>;

export interface HangDiagnosticsEnvironment {
  /** Global rank of this rank. */
  self: number;
  /** Global ranks of the group. */
  ranks: readonly number[];
  clock: Clock;
  /** Returns the report of this rank on collective `seq`. */
  reportOn: (seq: number) => Report;
  send: (message: { type: 'inquiry'; seq: number } | { type: 'report'; seq: number; report: Report }) => void;
}

interface Question {
  seq: number;
  /**
   * Whether the reason is a deadline. The question is then dropped if the collective ends after
   * all.
   */
  isForDeadline: boolean;
  /** Maximum time to wait for answers. */
  waitMs: number;
  conclude: (reports: Reports) => void;
}

interface Asked {
  readonly question: Question;
  readonly reports: Map<number, Report | null>;
  readonly cancel: () => void;
  isConcluded: boolean;
}

/**
 * Maximum number of collectives whose reports are stored. Each rank may ask about a different
 * collective.
 */
const MAX_COLLECTIVES_REPORTED = 16;

export class HangDiagnostics {
  readonly #env: HangDiagnosticsEnvironment;
  /** The reports of all ranks by collective, oldest question first. */
  readonly #reports = new Map<number, Map<number, Report>>();
  #asked: Asked | null = null;
  /**
   * Questions that came while a question for a deadline was open. If the group then fails, these
   * questions are dropped. If the collective of the open question ends or gets more time, one of
   * these questions is asked next.
   */
  #waiting: Question[] = [];

  constructor(env: HangDiagnosticsEnvironment) {
    this.#env = env;
  }

  /**
   * Asks at once if no question is open. While a question for a deadline is open, the new question
   * waits. While a question for a mismatch is open, the new question is ignored, because the group
   * will fail. `conclude` receives the reports at most `waitMs` after the inquiry. A question for a
   * deadline stays open until the group fails or {@link ended} is called.
   */
  ask(question: Question): void {
    if (!this.#asked) return this.#begin(question);
    // Every frame of a mismatched op causes the same question, which is asked only once.
    const { seq, isForDeadline } = question;
    const isKnown = this.#waiting.some((other) => other.seq === seq && other.isForDeadline === isForDeadline);
    if (this.#asked.question.isForDeadline && !isKnown) this.#waiting.push(question);
  }

  /** Sends the report of this rank to all, once per collective. */
  answer(seq: number): void {
    if (!this.#reportsFor(seq).has(this.#env.self)) this.#sendReport(seq);
  }

  /**
   * Called when this rank has called collective `seq`. If this rank has sent a report before, that
   * report says that this rank had not called the collective. So this rank sends a new report.
   */
  called(seq: number): void {
    if (this.#reports.get(seq)?.has(this.#env.self)) this.#sendReport(seq);
  }

  /** Receives a report of rank `from`. */
  receive(seq: number, report: Report, from: number): void {
    this.#reportsFor(seq).set(from, report);
    if (this.#asked?.question.seq !== seq) return;
    this.#asked.reports.set(from, report);
    this.#concludeIfComplete();
  }

  /** Returns the reports on collective `seq`; `null` if no rank has asked about it. */
  reportsOf(seq: number): Reports | null {
    return this.#reports.has(seq) ? this.#allReports(seq) : null;
  }

  /** Drops questions for the deadline of collective `seq`, which has ended or gets more time. */
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
    this.#asked = { question, reports, cancel: clock.after(waitMs, () => this.#conclude()), isConcluded: false };
    // If another rank has already asked, all ranks send their reports without this inquiry.
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
    if (!this.#asked!.isConcluded && ![...this.#asked!.reports.values()].includes(null)) this.#conclude();
  }

  #conclude(): void {
    const { question, reports, cancel } = this.#asked!;
    cancel();
    this.#asked!.isConcluded = true;
    question.conclude(reports);
  }
}

/**
 * Returns the question to ask first. A mismatch comes before a deadline, because a mismatch always
 * ends the group. If both questions are of one kind, the later collective comes first: a rank that
 * has not called the earlier collective has not called the later one either, so the reports on the
 * later collective show all missing ranks.
 */
function moreUrgent(first: Question | null, second: Question): Question {
  if (first === null || (first.isForDeadline && !second.isForDeadline)) return second;
  return first.isForDeadline === second.isForDeadline && second.seq > first.seq ? second : first;
}
