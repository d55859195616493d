/** An error message, in English. */
export function ErrorText({ of }: { of: string | null }) {
  if (of === null) return null;
  return (
    <p class="wrong small" role="alert">
      ✕ <span lang="en">{of}</span>
    </p>
  );
}
