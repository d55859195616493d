/** The layers of a model, cut into stages. */
import { chunkRange } from '../../../collectives/plans/ringPlan.ts';
import { RankMark } from '../../components/RankMark.tsx';
import { rankIdentityOf } from '../../components/rankIdentity.ts';
import { formatBytes } from '../../locales/format.ts';
import { uiMessages } from '../../locales/index.ts';

interface Props {
  stages: number;
  layers: number;
  /** Bytes of the whole model in training. */
  bytes: number;
}

export function ModelCut({ stages, layers, bytes }: Props) {
  const { cut } = uiMessages.value.pipelineLesson;
  const part = formatBytes(bytes / stages);
  return (
    <figure class="model-cut" aria-label={cut.title}>
      <figcaption class="small dim">{cut.title}</figcaption>
      <ol class="plain">
        {countFrom(0, stages).map((stage) => {
          const { start, end } = chunkRange(layers, stages, stage);
          return (
            <li key={stage} style={{ flexGrow: end - start, '--own': `var(--rank-${rankIdentityOf(stage).colour})` }}>
              <span class="away">{cut.stage(stage, start + 1, end, part)}</span>
              <span class="model-layers" aria-hidden="true">
                {countFrom(start, end).map((layer) => (
                  <i key={layer} />
                ))}
              </span>
              <span class="model-stage" aria-hidden="true">
                <RankMark rank={stage} /> <span class="small number nowrap">{part}</span>
              </span>
            </li>
          );
        })}
      </ol>
      <p class="row spread small dim" aria-hidden="true">
        <span>{cut.forward} →</span>
        <span>← {cut.backward}</span>
      </p>
    </figure>
  );
}

function countFrom(start: number, end: number): number[] {
  return Array.from({ length: end - start }, (_, i) => start + i);
}
