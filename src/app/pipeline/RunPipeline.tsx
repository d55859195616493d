/** The picture of a run whose ranks hold stages of the model. */
import { useMemo } from 'preact/hooks';
import { describeState } from '../state/describeState.ts';
import { goneRanks, ownRank } from '../state/derive.ts';
import type { ShownRun } from '../state/run.ts';
import type { TabView } from '../state/view.ts';
import { uiMessages } from '../locales/index.ts';
import { PipelineCaption } from './PipelineBar.tsx';
import { PipelinePicture } from './PipelinePicture.tsx';
import type { PipelinePlayer } from './pipelinePlayer.ts';
import { placeInReplica, stagesByRank } from './shape.ts';

export function RunPipeline({ view, run, player }: { view: TabView; run: ShownRun; player: PipelinePlayer }) {
  const { pipeline: labels } = uiMessages.value;
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
  const place = you === null ? null : placeInReplica(pipeline, you);
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
