/** Plays a recorded round. The user chooses the round and the rank that measured it. */
import { IndexSelect } from '../components/IndexSelect.tsx';
import { useComputed, useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { ChunkGrid } from '../ring/grid/ChunkGrid.tsx';
import { narrateFrame } from '../ring/narrate.ts';
import { PlayerBar } from '../ring/player/PlayerBar.tsx';
import { RingView } from '../ring/RingView.tsx';
import { RingCaption } from '../ring/SimulatedRing.tsx';
import { useRingPlayer } from '../ring/player/usePlayer.ts';
import { isTraceComplete } from '../state/runTelemetry.ts';
import { uiMessages } from '../locales/index.ts';

export function RecordedRoundPlayer({ recordings }: { recordings: readonly FlightRecording[] }) {
  const { recording: labels } = uiMessages.value.run;
  const chosenRank = useSignal<number | null>(null);
  const chosen = useSignal<number | null>(null);
  const recording = recordings.find(({ rank }) => rank === chosenRank.value) ?? recordings[0]!;
  const { worldSize: n, rank } = recording;
  const traces = useMemo(() => recording.traces.filter((one) => isTraceComplete(one, recording)), [recording]);
  const at = Math.min(chosen.value ?? traces.length - 1, traces.length - 1);
  const trace = traces[at];
  const stage = useMemo(() => (trace === undefined ? null : { trace, n }), [trace, n]);
  const player = useRingPlayer(stage, { autoplay: false, keys: true });
  const title = useComputed(() => {
    const frame = player.frame.value;
    return frame === null ? '' : narrateFrame(frame, rank).title;
  }).value;
  if (trace === undefined) return <p class="dim">{labels.noRound}</p>;
  const name = labels.roundOf(trace.step + 1, trace.bucket);
  const members = Array.from({ length: n }, () => ({ name: '' }));
  return (
    <section class="panel" aria-label={labels.round}>
      <div class="row rounds">
        <IndexSelect
          class="row"
          label={<span class="dim">{labels.round}</span>}
          options={traces.map(({ step, bucket }) => labels.roundOf(step + 1, bucket))}
          index={at}
          onpick={(index) => (chosen.value = index)}
        />
        {recordings.length > 1 && (
          <IndexSelect
            class="row"
            label={<span class="dim">{labels.from}</span>}
            options={recordings.map((one) => `rank ${one.rank}`)}
            index={recordings.indexOf(recording)}
            onpick={(index) => (chosenRank.value = recordings[index]!.rank)}
          />
        )}
      </div>
      <div class="run-columns">
        <div class="stage">
          <RingView
            members={members}
            you={rank}
            shape={trace.algorithm}
            player={player}
            centre={{ top: name, title, bottom: '' }}
            label={uiMessages.value.ring.picture(n, trace.algorithm, name)}
          />
        </div>
        <div class="replay-side">
          <ChunkGrid names={members.map((one) => one.name)} player={player} clock={rank} />
          <p class="caption">
            <RingCaption player={player} you={rank} />
          </p>
        </div>
        <div class="bar-place">
          <PlayerBar player={player} />
        </div>
      </div>
    </section>
  );
}
