/** Counts the bytes and measures the times of a run on this rank, over all worlds of the run. */
import type { RunResult } from '../../../protocol/runResult.ts';
import type { RankStatistics } from '../../../protocol/runEvents.ts';
import type { StepCommandCounts, StepTimes } from '../../../protocol/stepTrace.ts';
import { RUN_ALGORITHM_NAMES, type RunAlgorithm } from '../../../spec/algorithms.ts';
import { mean, median, quantile } from '../../../util/statistics.ts';

interface ByteCounts {
  sent: number;
  received: number;
  sentBy: ReadonlyMap<string, number>;
}

/** The byte counts of one or several process groups. */
export interface GroupByteCounts {
  readonly bytesSent: number;
  readonly bytesReceived: number;
  readonly bytesSentBy: ReadonlyMap<string, number>;
}

export class RunStats {
  readonly #times: StepTimes[] = [];
  #reportedTimes = 0;
  /** Commands of the steps since the previous call of {@link statistics}. */
  #commands: StepCommandCounts[] = [];
  #gradientBytes = { sent: 0, received: 0 };
  #group: GroupByteCounts | null = null;
  /** The bytes that were sent in earlier worlds. */
  #earlierBytesSent = 0;
  /**
   * The group's byte counts at the latest mark, which is the latest call of {@link countBytes} or
   * {@link skipBytes}.
   */
  #mark: ByteCounts = { sent: 0, received: 0, sentBy: new Map() };
  /**
   * For each algorithm: the bytes of gradients that were sent. They belong to the latest world in
   * which a step has begun.
   */
  readonly #gradientBytesBy = new Map<string, number>();
  /** Whether no step has begun in this world. */
  #isNewWorld = true;

  readonly #memoryBytes: () => number;

  constructor(memoryBytes: () => number) {
    this.#memoryBytes = memoryBytes;
  }

  enter(group: GroupByteCounts): void {
    if (this.#group) this.#earlierBytesSent += this.#group.bytesSent;
    this.#group = group;
    this.#isNewWorld = true;
  }

  /**
   * The algorithm that has sent the most bytes of gradients in this world. Before this world's
   * first step, it is the algorithm of the previous world, because a run may end without another
   * step.
   */
  get algorithm(): RunAlgorithm {
    const [most] = [...this.#gradientBytesBy].sort(([, a], [, b]) => b - a);
    return RUN_ALGORITHM_NAMES.find((name) => name === most?.[0]) ?? 'none';
  }

  took(ms: StepTimes, commands: StepCommandCounts | null): void {
    this.#times.push(ms);
    if (commands) this.#commands.push(commands);
  }

  /** Sets the mark. The bytes since the previous mark do not count as gradients. */
  skipBytes(): void {
    const { bytesSent: sent, bytesReceived: received, bytesSentBy } = this.#group!;
    this.#mark = { sent, received, sentBy: new Map(bytesSentBy) };
  }

  /** Sets the mark. The bytes since the previous mark count as gradients. */
  countBytes(): void {
    const { bytesSent, bytesReceived, bytesSentBy } = this.#group!;
    if (this.#isNewWorld) this.#gradientBytesBy.clear();
    this.#isNewWorld = false;
    for (const [algorithm, bytes] of bytesSentBy) {
      const added = bytes - (this.#mark.sentBy.get(algorithm) ?? 0);
      if (added > 0) this.#gradientBytesBy.set(algorithm, (this.#gradientBytesBy.get(algorithm) ?? 0) + added);
    }
    this.#gradientBytes.sent += bytesSent - this.#mark.sent;
    this.#gradientBytes.received += bytesReceived - this.#mark.received;
    this.skipBytes();
  }

  /**
   * Returns this rank's statistics. Times and commands are medians of the steps since the previous
   * call. Bytes sent and received are totals of the run.
   */
  statistics(): Omit<RankStatistics, 'rank'> {
    const recent = this.#times.slice(this.#reportedTimes);
    this.#reportedTimes = this.#times.length;
    const commands = this.#commands;
    this.#commands = [];
    const { sent, received } = this.#gradientBytes;
    return {
      dataMs: median(recent.map(({ data }) => data)),
      computeMs: median(recent.map(({ compute }) => compute)),
      communicateMs: median(recent.map(({ communicate }) => communicate)),
      stepMs: median(recent.map(({ total }) => total)),
      gradientBytesSent: sent,
      gradientBytesReceived: received,
      otherBytesSent: this.#earlierBytesSent + this.#group!.bytesSent - sent,
      memoryBytes: this.#memoryBytes(),
      ...(commands.length > 0 && {
        commands: {
          dispatches: median(commands.map(({ dispatches }) => dispatches)),
          submits: median(commands.map(({ submits }) => submits)),
        },
      }),
    };
  }

  /** Returns the mean duration of the latest `count` steps, in milliseconds. */
  latestStepMs(count: number): number {
    return mean(this.#times.slice(-count).map(({ total }) => total));
  }

  get stepMs(): RunResult['stepMs'] {
    const all = (pick: (ms: StepTimes) => number): number[] => this.#times.map(pick);
    return {
      median: median(all(({ total }) => total)),
      p95: quantile(
        all(({ total }) => total),
        0.95,
      ),
      data: median(all(({ data }) => data)),
      compute: median(all(({ compute }) => compute)),
      communicate: median(all(({ communicate }) => communicate)),
      exposed: median(all(({ exposed }) => exposed)),
    };
  }
}
