/**
 * Detects whether this rank's link to its right neighbour is slower than the ring's other links. It
 * compares how long chunks travel over each link, as ranks report in their telemetry. The server is
 * told about a slow link, and can choose another ring order.
 */
import { rightNeighbourOf } from '../../../collectives/plans/ringPlan.ts';
import type { EngineEvent, EventOf } from '../../../protocol/events.ts';
import { findStragglers } from '../../../telemetry/stragglers.ts';

/**
 * A link is slow if a chunk takes this many times as long as on the other links. Links of one
 * network differ by less than this. For a smaller ratio, a change of the ring order would cost more
 * than it gains, because it briefly interrupts all ranks and needs new links.
 */
const RATIO = 3;
/**
 * The number of consecutive exchanges of telemetry in which the link must be slow. An exchange
 * contains mean durations since the previous exchange, so a single slow exchange may be due to a
 * download.
 */
const LASTING = 2;

export class SlowLinkDetector {
  #generation: EventOf<'generation'> | null = null;
  #statistics: EventOf<'ranks'>['ranks'] = [];
  #times = 0;
  /**
   * Whether slices of files are being sent over the links, which makes the links slow for a while.
   */
  #isBusy = false;

  /**
   * Receives the run's events in order.
   *
   * @returns the link, when it has been slow in {@link LASTING} consecutive exchanges; otherwise
   *   `null`. While the link stays slow, it is not returned again.
   */
  observe(event: EngineEvent): { generation: number; peer: string } | null {
    if (event.type === 'generation') {
      this.#generation = event;
      this.#times = 0;
      this.#isBusy = false;
    }
    if (event.type === 'distribution' && event.what === 'files' && event.generation === this.#generation?.generation) {
      this.#isBusy = event.bytesPerRank.some((bytes) => bytes < event.total);
    }
    if (event.type === 'ranks') this.#statistics = event.ranks;
    if (event.type !== 'telemetry' || this.#generation === null) return null;
    const { generation, rank, members } = this.#generation;
    const found = findStragglers(this.#statistics, event.ranks).find(
      (finding) => finding.kind === 'link' && finding.from === rank,
    );
    this.#times = found && found.ratio >= RATIO && !this.#isBusy ? this.#times + 1 : 0;
    return this.#times === LASTING
      ? { generation, peer: members[rightNeighbourOf(rank, members.length)]!.member }
      : null;
  }
}
