/**
 * The codec of a ring that finds its own: the first steps of a world go as they are and are timed,
 * then all ranks choose.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { CodecChoice } from '../../protocol/runResult.ts';
import type { JobCodec } from '../../spec/names.ts';
import { median } from '../../util/statistics.ts';
import { chooseCodec, isBeyondDoubt, type MeasuredSteps } from './codecChoice.ts';
import type { StepReport } from './strategy.ts';

/**
 * A world's first step may wait for shaders and for links to get up to speed. If it needs a codec
 * all the same, it will; if it seems to need none, nobody knows.
 */
const FIRST = 1;
/**
 * Most steps that are timed after it: their median bears one that was disturbed. At fp32 each may
 * take seconds.
 */
const TIMED = 3;

export class AutoCodec {
  readonly #group: ProcessGroup;
  readonly #bytes: Record<JobCodec, number>;
  readonly #reports: StepReport[] = [];
  #isChosen: boolean;

  /** @param bytes of one gradient by each codec. */
  constructor(group: ProcessGroup, bytes: Record<JobCodec, number>) {
    this.#group = group;
    this.#bytes = bytes;
    this.#isChosen = group.worldSize === 1;
  }

  /** Each step of the world, on all ranks the same. */
  took(report: StepReport): void {
    if (!this.#isChosen) this.#reports.push(report);
  }

  /**
   * Before a step. Every rank must call it. @returns what was chosen now: as soon as it is beyond
   * doubt.
   */
  async choose(): Promise<CodecChoice | null> {
    const { length } = this.#reports;
    if (this.#isChosen || length === 0) return null;
    const { worldSize } = this.#group;
    const steps = await this.#measured();
    const choice = chooseCodec(worldSize, this.#bytes, steps);
    const isKnown = isBeyondDoubt(worldSize, this.#bytes, steps) && (length > FIRST || choice.codec !== 'fp32');
    if (!isKnown && length < FIRST + TIMED) return null;
    this.#isChosen = true;
    return choice;
  }

  async #measured(): Promise<MeasuredSteps> {
    const timed = this.#reports.length > FIRST ? this.#reports.slice(FIRST) : this.#reports;
    const medianOf = (pick: (report: StepReport) => number): number => median(timed.map(pick));
    const own = Float64Array.of(
      medianOf(({ compute, readback, update }) => compute + readback + update),
      medianOf(({ communicate }) => communicate),
      medianOf(({ exposed }) => exposed),
    );
    const all = await this.#group.allGather(own);
    const column = (i: number): number[] => all.map((row) => row[i]!);
    return {
      ownMs: Math.max(...column(0)),
      // Who waits for a slower rank takes that for communication: the one that waits least knows.
      communicateMs: Math.min(...column(1)),
      exposedMs: Math.min(...column(2)),
    };
  }
}
