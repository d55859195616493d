/** The picture of a run whose ranks hold stages of the model. */
import { useMemo } from 'preact/hooks';
import { describeState } from '../state/describeState.ts';
import { goneRanks, ownRank } from '../state/derive.ts';
import type { Run } from '../state/run.ts';
import type { View } from '../state/view.ts';
import { messages } from '../locales/index.ts';
import { PipelineCaption } from './PipelineBar.tsx';
import { PipelinePicture } from './PipelinePicture.tsx';
import type { PipelinePlayer } from './pipelinePlayer.ts';
import { placeOf, stagesByRank } from './shape.ts';

export function RunPipeline({ view, run, player }: { view: View; run: Run; player: PipelinePlayer }) {
  const { pipeline: labels } = messages.value;
  const { pipeline, members } = run;
  const stages = useMemo(() => (pipeline === null ? null : stagesByRank(pipeline)), [pipeline]);
  const gone = goneRanks(run, view.lobby);
  const you = ownRank(view, run);
  if (pipeline === null) {
    return (
      <section class="stage" aria-label={labels.title}>
        <p class="dim">{describeState(view).word}</p>
      </section>
    );
  }
  const place = you === null ? null : placeOf(pipeline, you);
  return (
    <section class="stage" aria-label={labels.title}>
      <PipelinePicture
        shape={pipeline}
        stages={stages}
        members={members.map(({ name }, rank) => ({ name, pale: gone.includes(rank) }))}
        you={you}
        player={player}
      />
      <p class="caption">
        {you !== null && place === null ? labels.noStageHere : <PipelineCaption player={player} place={place} />}
      </p>
    </section>
  );
}
