/** What files hold, before anything is trained: rows and columns, classes, a dozen pictures; and what is wrong with them. */
import { useEffect, useRef } from 'preact/hooks';
import type {
  ColumnKind,
  ImagesPreview,
  Preview,
  PreviewClass,
  PreviewPicture,
  TablePreview,
  TextPreview,
} from '../../protocol/preview.ts';
import { formatCount } from '../format.ts';
import { words } from '../words/index.ts';
import { Problem } from './Problem.tsx';

/** Classes told with their counts. */
const LISTED = 12;

export function FilesPreview({ preview, problem }: { preview: Preview | null; problem: string | null }) {
  const { files: says } = words.value.lobby;
  return (
    <div class="preview" aria-live="polite">
      <Problem of={problem} />
      {preview === null && problem === null && <p class="dim small">{says.reading}</p>}
      {preview?.kind === 'table' && <TableFound table={preview} />}
      {preview?.kind === 'images' && <ImagesFound images={preview} />}
      {preview?.kind === 'gpt' && <TextFound text={preview} />}
    </div>
  );
}

function TableFound({ table }: { table: TablePreview }) {
  const { files: says } = words.value.lobby;
  return (
    <>
      <p class="small">
        {says.rows(table.rows, table.columns.length)}{' '}
        {says.predicts(<strong lang="und">{table.target}</strong>, table.task)}
      </p>
      <div class="preview-table" tabIndex={0} role="region" aria-label={says.firstRows}>
        <table>
          <thead>
            <tr lang="und">
              {table.columns.map(({ name, kind }) => (
                <th key={name} scope="col" class={classOf(kind, name === table.target)}>
                  {name}
                </th>
              ))}
            </tr>
            <tr>
              {table.columns.map(({ name, kind, missing, distinct }) => (
                <td key={name} class={`dim ${classOf(kind)}`}>
                  {[
                    says.kinds[kind],
                    ...(kind === 'category' && distinct !== null ? [says.distinct(distinct)] : []),
                    ...(missing > 0 && kind !== 'empty' ? [says.missing(missing)] : []),
                  ].join(', ')}
                </td>
              ))}
            </tr>
          </thead>
          <tbody lang="und">
            {table.sample.map((fields, row) => (
              <tr key={row}>
                {fields.map((field, i) => (
                  <td key={i} class={classOf(table.columns[i]!.kind)}>
                    {field}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Classes classes={table.classes} />
    </>
  );
}

function classOf(kind: ColumnKind, isTarget = false): string {
  return `${kind === 'number' ? 'number' : ''} ${isTarget ? 'target' : ''}`.trim();
}

function ImagesFound({ images }: { images: ImagesPreview }) {
  const { files: says } = words.value.lobby;
  return (
    <>
      <p class="small">
        {says.samples(images.samples, images.heldOut)} {says.shape(...images.shape)}{' '}
        {images.ignored > 0 && says.ignored(images.ignored)}
      </p>
      {images.pictures.length > 0 && (
        <ul class="plain preview-pictures" aria-label={says.pictures}>
          {images.pictures.map((picture, i) => (
            <li key={i}>
              <ColourPicture picture={picture} />
              <span class="small ellipsis" lang="und">
                {picture.label}
              </span>
            </li>
          ))}
        </ul>
      )}
      <Classes classes={images.classes} />
    </>
  );
}

function TextFound({ text }: { text: TextPreview }) {
  const { files: says } = words.value.lobby;
  return (
    <>
      <p class="small">
        {says.characters(text.characters, text.vocabulary)} {says.samples(text.samples, text.heldOut)}
      </p>
      <blockquote class="preview-text small" lang="und">
        {text.beginning}
      </blockquote>
    </>
  );
}

function Classes({ classes }: { classes: readonly PreviewClass[] }) {
  const { files: says } = words.value.lobby;
  if (classes.length === 0) return null;
  return (
    <ul class="plain small preview-classes" aria-label={says.classes}>
      {classes.slice(0, LISTED).map(({ name, count }) => (
        <li key={name}>
          <span lang="und">{name}</span> <span class="dim">{formatCount(count)}</span>
        </li>
      ))}
      {classes.length > LISTED && <li class="dim">{says.more(classes.length - LISTED)}</li>}
    </ul>
  );
}

function ColourPicture({ picture }: { picture: PreviewPicture }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { pixels, height, width, channels } = picture;
  useEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (!context) return;
    const image = context.createImageData(width, height);
    const grey = channels < 3;
    for (let at = 0; at < width * height; at++) {
      const [red, green, blue] = [0, 1, 2].map((channel) => pixels[at * channels + (grey ? 0 : channel)]!);
      image.data.set([red!, green!, blue!, 255], 4 * at);
    }
    context.putImageData(image, 0, 0);
  }, [pixels, height, width, channels]);
  return <canvas ref={canvas} width={width} height={height} aria-hidden="true" />;
}
