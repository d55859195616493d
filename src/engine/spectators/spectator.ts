/**
 * A tab that only watches a run. It receives rank 0's updates and emits their events for its page.
 * Updates may be lost, and an update may repeat events, but each event is emitted only once.
 */
import type { ServerMessage } from '../../protocol/control.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import { englishNoticeMessageOf } from '../../protocol/notices.ts';
import { parseSpectatorUpdate, type SpectatorEvent } from '../../protocol/spectatorUpdate.ts';
import { RunOverError } from '../../util/errors.ts';
import type { RunEnd } from '../membership/membership.ts';

type Room = Extract<ServerMessage, { type: 'room' }>;

export class Spectator {
  readonly #emit: (event: EngineEvent) => void;
  /** The run that is shown; 0 before the first run. */
  #run = 0;
  #generation = 0;
  /** The latest step that was shown, for each kind of event. */
  readonly #shown = new Map<SpectatorEvent['type'], number>();
  /** The event that is emitted when the run has finished. */
  #finished: Extract<SpectatorEvent, { type: 'finished' | 'lesson' }> | null = null;

  constructor(emit: (event: EngineEvent) => void) {
    this.#emit = emit;
  }

  receive(update: string): void {
    for (const event of parseSpectatorUpdate(update)) this.#show(event);
  }

  /** Ends the shown run if it is over in `room`, because this tab may have missed the end. */
  follow({ run, phase }: Room): void {
    const isOver = run > this.#run || (run === this.#run && phase === 'FORMING');
    if (isOver) this.end({ outcome: 'stopped', ...englishNoticeMessageOf({ code: 'missed-end' }) });
  }

  end({ outcome, message, notice }: Omit<RunEnd, 'run'>): void {
    if (this.#run === 0) return;
    const finished = this.#finished;
    this.#run = 0;
    this.#finished = null;
    if (outcome === 'finished' && finished) this.#emit(finished);
    else {
      const { name } = new RunOverError(message);
      this.#emit({ type: 'failed', name, message, fatal: false, ...(notice && { notice }) });
    }
  }

  #show(event: SpectatorEvent): void {
    if (event.type === 'generation') return this.#begin(event);
    // Events are ignored until the beginning of the run is known.
    if (this.#run === 0) return;
    if (event.type === 'finished') {
      this.#finished = event;
      return;
    }
    // The final state of a lesson may be missing in the updates. So the latest known state is kept,
    // marked as over, for the end of the lesson.
    if (event.type === 'lesson') this.#finished = { ...event, state: { ...event.state, isOver: true } };
    if ('step' in event) {
      if (event.step <= (this.#shown.get(event.type) ?? -1)) return;
      this.#shown.set(event.type, event.step);
    }
    this.#emit(event);
  }

  #begin(event: Extract<SpectatorEvent, { type: 'generation' }>): void {
    const { run, generation } = event;
    if (run === this.#run && generation === this.#generation) return;
    if (run !== this.#run) this.#shown.clear();
    this.#run = run;
    this.#generation = generation;
    this.#emit(event);
  }
}
