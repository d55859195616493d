/**
 * Shows how the tabs of a lobby would divide the model: the picture of the plan, the layers and the
 * memory of each tab, and which tabs are missing.
 */
import { useMemo } from 'preact/hooks';
import { assignRanks } from '../../protocol/seating.ts';
import type { JobSpec } from '../../spec/job.ts';
import { pipelineWorldFor, microBatchCountOf, TAB_MEMORY_BYTES } from '../../spec/pipeline.ts';
import { RankMark } from '../components/RankMark.tsx';
import { formatBytes } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';
import { plannedModelOf, plannedPipelineOf } from '../pipeline/memoryPlan.ts';
import { PipelineCaption, PipelineLegend } from '../pipeline/PipelinePlaybackBar.tsx';
import { PipelinePicture } from '../pipeline/PipelinePicture.tsx';
import { createPipelinePlayer } from '../pipeline/pipelinePlayer.ts';
import { placeInReplica, stagesByRank, type PipelineShape } from '../pipeline/shape.ts';
import { usePlayback } from '../ring/player/usePlayer.ts';
import type { LobbyView } from '../state/room.ts';
import type { TabView } from '../state/view.ts';

/** The picture of the pipeline that the run would have, with free places for missing tabs. */
export function PipelinePreview({ view, lobby }: { view: TabView; lobby: LobbyView }) {
  const { pipeline: labels } = uiMessages.value;
  const { job } = lobby;
  const places = assignRanks(lobby.members, Math.max(job.stages, lobby.startAt ?? 0));
  const at = places.findIndex((one) => one?.member === view.member);
  const you = at < 0 ? null : at;
  const { shape, stages } = useMemo(() => {
    const model = plannedModelOf(job);
    if (model === null) return { shape: unplannedShape(job, places.length), stages: null };
    const plan = plannedPipelineOf(job, model, places.length);
    return { shape: plan, stages: stagesByRank(plan).map((one, rank) => ({ ...one, bytes: plan.bytes[rank]! })) };
  }, [job, places.length]);
  const player = usePlayback(shape, createPipelinePlayer, { autoplay: true, keys: true });
  const place = you === null ? null : placeInReplica(shape, you);
  return (
    <figure class="simulated">
      <PipelinePicture
        shape={shape}
        stages={stages}
        members={places.map((one) => (one === null ? { name: null } : { name: one.name, pale: one.device === null }))}
        you={you}
        player={player}
      />
      <figcaption class="caption">
        <PipelineCaption player={player} place={place} />
      </figcaption>
      <PipelineLegend />
      <p class="dim small legend">{labels.planned}</p>
    </figure>
  );
}

/** Returns the pipeline of `tabs` tabs for a model whose layers are not known yet. */
function unplannedShape(job: JobSpec, tabs: number): PipelineShape {
  const { stages: ranks, replicas } = pipelineWorldFor(tabs, job, job.stages);
  return { ranks, replicas, microBatches: microBatchCountOf(job, ranks), schedule: job.pipelineSchedule, ring: false };
}

export function PlannedStages({ lobby }: { lobby: LobbyView }) {
  const { pipeline: labels } = uiMessages.value;
  const { job, members } = lobby;
  const ready = members.filter((one) => one.device !== null).length;
  const model = useMemo(() => plannedModelOf(job), [job]);
  const plan = useMemo(
    () => (model === null || ready === 0 ? null : plannedPipelineOf(job, model, ready)),
    [job, model, ready],
  );
  const { stages, replicas } = pipelineWorldFor(Math.max(1, ready), job, model?.layers.length ?? job.stages);
  const missing = Math.max(0, Math.min(job.stages, model?.layers.length ?? job.stages) - ready);
  const needs = plan === null ? null : formatBytes(Math.max(...plan.bytes));
  const left = ready - stages * replicas;
  return (
    <div class="preview">
      <p class={missing > 0 ? 'small wait' : 'small'}>
        {labels.sentences(
          missing === 0
            ? [labels.enough(stages, replicas), ...(left > 0 ? [labels.leftOver(left)] : [])]
            : [
                labels.needsTabs(job.stages, ready),
                ready < 2 ? labels.alone : labels.missing(missing, stages),
                ...(needs === null ? [] : [labels.fewerStages(needs)]),
                ...(plan?.isTooLarge === true ? [labels.cannotStart(formatBytes(TAB_MEMORY_BYTES))] : []),
              ],
        )}
      </p>
      {plan !== null && ready > 1 && (
        <div class="preview-table" tabIndex={0} role="region" aria-label={labels.plannedLayers}>
          <table>
            <thead>
              <tr>
                <th scope="col">{uiMessages.value.run.rank}</th>
                <th scope="col">{labels.stage}</th>
                <th scope="col">{uiMessages.value.job.layers}</th>
                <th scope="col" class="number">
                  {labels.memory}
                </th>
              </tr>
            </thead>
            <tbody>
              {stagesByRank(plan).map(({ stages: own, layers }, rank) => (
                <tr key={rank}>
                  <th scope="row">
                    <RankMark rank={rank} />
                  </th>
                  <td>{own.join(' + ')}</td>
                  <td title={layers.join(', ')}>{labels.layers(layers.length)}</td>
                  <td class="number">{formatBytes(plan.bytes[rank]!)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {plan?.isMeasured === true && <p class="dim small">{labels.measuredLater}</p>}
    </div>
  );
}
