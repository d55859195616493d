/** The result of a run whose ranks held stages of the model. */
import type { RunResult } from '../../protocol/runResult.ts';
import { NamedValue } from '../components/NamedValue.tsx';
import { RankMark } from '../components/RankMark.tsx';
import { formatBytes, formatPercent } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';

interface Props {
  pipeline: NonNullable<RunResult['pipeline']>;
  /** Bytes of each rank. */
  memory: readonly number[];
}

export function PipelineFacts({ pipeline, memory }: Props) {
  const { pipeline: labels } = uiMessages.value;
  const { stages, replicas, microBatches, idle, layers } = pipeline;
  const used = memory.filter((_, rank) => (layers[rank]?.length ?? 0) > 0);
  return (
    <>
      <NamedValue name={labels.division}>{labels.divided(stages, replicas, microBatches)}</NamedValue>
      <NamedValue name={labels.waited}>
        {formatPercent(idle.measured)} <span class="dim small">{labels.planOf(formatPercent(idle.plan))}</span>
      </NamedValue>
      {used.length > 0 && (
        <NamedValue name={labels.memoryPerRank}>
          {labels.upTo(formatBytes(Math.min(...used)), formatBytes(Math.max(...used)))}
        </NamedValue>
      )}
    </>
  );
}

export function LayersByRank({ pipeline, memory }: Props) {
  const { pipeline: labels, run } = uiMessages.value;
  return (
    <details class="fold">
      <summary>{labels.layersByRank}</summary>
      <div class="table-box">
        <table>
          <thead>
            <tr>
              <th scope="col">{run.rank}</th>
              <th scope="col">{uiMessages.value.job.layers}</th>
              <th scope="col" class="right">
                {labels.memory}
              </th>
            </tr>
          </thead>
          <tbody>
            {pipeline.layers.map((layers, rank) => (
              <tr key={rank}>
                <th scope="row">
                  <RankMark rank={rank} />
                </th>
                <td lang="en">{layers.length === 0 ? labels.noStage : layers.join(', ')}</td>
                <td class="right number">{formatBytes(memory[rank] ?? 0)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
