/**
 * Hang diagnostics: after a deadline or a mismatch, and before the group fails, a rank asks all
 * ranks of the group which collective they called. Each rank sends its report to all ranks. So
 * ranks that ask at the same time share the reports.
 */
import type { Clock } from '../../util/clock.ts';
import type { GroupMessage } from '../groupMessages.ts';
import type { HangReport } from './diagnosis.ts';

/** Reports by global rank, in ascending order; `null` if a rank has not answered. */
export type HangReports = ReadonlyMap<number, HangReport | null>;

export interface HangDiagnosticsEnvironment {
  /** Global rank of this rank. */
  self: number;
  /** Global ranks of the group. */
  ranks: readonly number[];
  clock: Clock;
  /** Returns this rank's report on collective `seq`, which another rank called `waitedMs` ago. */
  reportOn: (seq: number, waitedMs: number) => HangReport;
  send: (message: Inquiry | { type: 'report'; seq: number; report: HangReport }) => void;
}

type Inquiry = Extract<GroupMessage, { type: 'inquiry' }>;

/** The state of the inquiries about one collective. */
interface Inquiries {
  /**
   * The latest inquiry, of this or another rank, and its time; `null` if there were only reports.
   */
  latest: { waitedMs: number; at: number } | null;
  /** The latest reports with the times of their arrival. */
  readonly reports: Map<number, { report: HangReport; at: number }>;
}

interface Question {
  seq: number;
  /** Whether the reason is a deadline. If so, the question is dropped when the collective ends. */
  isForDeadline: boolean;
  /** Time since this rank called the collective. */
  waitedMs: number;
  /** Maximum time to wait for answers, and maximum age of earlier reports that still count. */
  waitMs: number;
  conclude: (reports: HangReports) => void;
}

interface Asked {
  readonly question: Question;
  readonly reports: Inquiries['reports'];
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
  /** By collective, oldest question first. */
  readonly #inquiries = new Map<number, Inquiries>();
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
   * Asks immediately if no question is open. While a question for a deadline is open, the new
   * question waits. While a question for a mismatch is open, the new question is ignored, because
   * the group will fail. `conclude` receives the reports at most `waitMs` after the inquiry. A
   * question for a deadline stays open until the group fails or {@link ended} is called.
   */
  ask(question: Question): void {
    if (!this.#asked) return this.#begin(question);
    // Every frame of a mismatched op causes the same question, which is asked only once.
    const { seq, isForDeadline } = question;
    const isKnown = this.#waiting.some((other) => other.seq === seq && other.isForDeadline === isForDeadline);
    if (this.#asked.question.isForDeadline && !isKnown) this.#waiting.push(question);
  }

  /** Sends this rank's report to all ranks, unless another rank's inquiry has just caused it to. */
  answer({ seq, waitedMs, waitMs }: Pick<Question, 'seq' | 'waitedMs' | 'waitMs'>): void {
    const now = this.#env.clock.now();
    const inquiries = this.#inquiriesFor(seq);
    inquiries.latest = { waitedMs, at: now };
    const own = inquiries.reports.get(this.#env.self);
    if (!own || now - own.at > waitMs / 2) this.#sendReport(seq);
  }

  /**
   * Called when this rank has called collective `seq`. If this rank has sent a report before, that
   * report says that this rank had not called the collective. So this rank sends a new report.
   */
  called(seq: number): void {
    if (this.#inquiries.get(seq)?.reports.has(this.#env.self)) this.#sendReport(seq);
  }

  /** Receives a report of rank `from`. */
  receive(seq: number, report: HangReport, from: number): void {
    const received = { report, at: this.#env.clock.now() };
    this.#inquiriesFor(seq).reports.set(from, received);
    if (this.#asked?.question.seq !== seq) return;
    // Since this rank asked, later inquiries may have caused the collective's reports to be
    // dropped.
    this.#asked.reports.set(from, received);
    this.#concludeIfComplete();
  }

  /** Returns the reports on collective `seq`; `null` if no rank has asked about it. */
  reportsOf(seq: number): HangReports | null {
    const inquiries = this.#inquiries.get(seq);
    return inquiries ? this.#allReports(inquiries.reports) : null;
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

  #allReports(reports: Inquiries['reports']): Map<number, HangReport | null> {
    const { ranks, clock } = this.#env;
    const reportOf = (rank: number): HangReport | null => {
      const known = reports.get(rank);
      return known ? { ...known.report, idleMs: known.report.idleMs + clock.now() - known.at } : null;
    };
    return new Map(ranks.toSorted((a, b) => a - b).map((rank) => [rank, reportOf(rank)]));
  }

  #begin(question: Question): void {
    const { clock, send } = this.#env;
    const { seq, waitedMs, waitMs } = question;
    const { latest, reports } = this.#inquiriesFor(seq);
    for (const [rank, { at }] of reports) if (clock.now() - at > waitMs) reports.delete(rank);
    const isAsked = latest !== null && clock.now() - latest.at <= waitMs;
    this.answer(question);
    this.#asked = { question, reports, cancel: clock.after(waitMs, () => this.#conclude()), isConcluded: false };
    // If another rank has already asked, all ranks send their reports without this inquiry.
    if (!isAsked) send({ type: 'inquiry', seq, waitedMs, waitMs });
    this.#concludeIfComplete();
  }

  #sendReport(seq: number): void {
    const { self, reportOn, send, clock } = this.#env;
    const { latest, reports } = this.#inquiriesFor(seq);
    const report = reportOn(seq, latest?.waitedMs ?? 0);
    reports.set(self, { report, at: clock.now() });
    send({ type: 'report', seq, report });
  }

  #inquiriesFor(seq: number): Inquiries {
    const known = this.#inquiries.get(seq);
    if (known) return known;
    const [oldest] = this.#inquiries.keys();
    if (this.#inquiries.size >= MAX_COLLECTIVES_REPORTED) this.#inquiries.delete(oldest!);
    const inquiries: Inquiries = { latest: null, reports: new Map() };
    this.#inquiries.set(seq, inquiries);
    return inquiries;
  }

  #concludeIfComplete(): void {
    const { isConcluded, reports } = this.#asked!;
    if (!isConcluded && this.#env.ranks.every((rank) => reports.has(rank))) this.#conclude();
  }

  #conclude(): void {
    const { question, reports, cancel } = this.#asked!;
    cancel();
    this.#asked!.isConcluded = true;
    question.conclude(this.#allReports(reports));
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
