/**
 * Measures steps and chooses the codec: the first steps of a generation use fp32 and are timed,
 * then all ranks choose.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { CodecChoice } from '../../protocol/runResult.ts';
import type { JobCodec } from '../../spec/names.ts';
import { median } from '../../util/statistics.ts';
import { chooseCodec, isBeyondDoubt, type MeasuredSteps } from './codecChoice.ts';
import type { StepReport } from './strategy.ts';

/**
 * Steps before the timed ones. The first step of a generation may wait for shaders and for links to
 * speed up: it can prove that a codec is needed, but not that none is.
 */
const FIRST = 1;
/** Most timed steps; their median tolerates one outlier. With fp32 each may take seconds. */
const TIMED = 3;

export class AutoCodec {
  readonly #group: ProcessGroup;
  readonly #bytes: Record<JobCodec, number>;
  readonly #reports: StepReport[] = [];
  #isChosen: boolean;

  /** @param bytes of one gradient with each codec. */
  constructor(group: ProcessGroup, bytes: Record<JobCodec, number>) {
    this.#group = group;
    this.#bytes = bytes;
    this.#isChosen = group.worldSize === 1;
  }

  /** Records a step, on all ranks the same one. */
  record(report: StepReport): void {
    if (!this.#isChosen) this.#reports.push(report);
  }

  /**
   * Called before each step. Every rank must call it.
   *
   * @returns the choice, once it is certain enough; otherwise `null`.
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
      // A rank that waits for a slower one measures that as communication, so the shortest time
      // counts.
      communicateMs: Math.min(...column(1)),
      exposedMs: Math.min(...column(2)),
    };
  }
}
