"""What the names of kernels tell, as they stand in recorded traces."""

from __future__ import annotations

import pytest

from tprofile.analysis.kernel_names import kernel_kind, tensor_core

XMMA = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_warpsize4x2x1_ffma_aligna4"
UNIVERSAL = (
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int>, "
    "cutlass::epilogue::collective::CollectiveEpilogue<cutlass::layout::TransposeB>>>(Params)"
)


@pytest.mark.parametrize(
    ("name", "kind", "tensor"),
    [
        (XMMA, "gemm", 0),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x256x32_warpgroupsize2x1x1", "gemm", 1),
        ("sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16_tensor16x8x8_exe", "gemm", 1),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(P)", "gemm", 0),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>(P)", "gemm", 1),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", "gemm", 1),
        ("ampere_sgemm_128x64_tn", "gemm", 0),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "gemm", 1),
        ("volta_sgemm_64x32_sliced1x4_tn", "gemm", 0),
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", "gemm", 1),
        ("nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT", "gemm", 1),
        (UNIVERSAL, "gemm", -1),
        ("triton_tem_fused_mm_1", "gemm", -1),
        ("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN_LDSB0", "gemm", 1),
        ("void gemv2T_kernel_val<int, int, float, float, float, float, 128>(P)", "gemm", 0),
        ("void dot_kernel<float, 128, 0, cublasDotParams<float>>(P)", "gemm", 0),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tensor16x8x8",
         "convolution", 1),
        ("sm80_xmma_dgrad_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_ffma", "convolution", 0),
        ("_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11thread",
         "convolution", -1),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8_wt64x16x4", "convolution", 1),
        ("_ZN2ck16tensor_operation6device12_GLOBAL__N_149kernel_grouped_conv_fwd_multiple_abd_xdl_c",
         "convolution", 1),
        ("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1", "convolution", 0),
        ("void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<1, float>(P)",
         "convolution", 0),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128",
         "attention", 1),
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>(P)",
         "attention", 1),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>)",
         "attention", -1),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<x>)",
         "attention", 1),
        ("kernel_unified_attention_2d", "attention", -1),
    ],
)  # fmt: skip
def test_products(name: str, kind: str, tensor: int) -> None:
    assert (kernel_kind(name), tensor_core(name)) == (kind, tensor)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(P)", "other"),
        ("void cutlass__5x_cudnn::Kernel<cutlass__5x_cudnn::reduction::kernel::ReduceSplitK<4>>(P)",
         "other"),
        ("void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float>(P)", "other"),
        ("void cask_cudnn_infer::computeOffsetsKernel<false, false>(P)", "other"),
        ("void cudnn::cnn::reduce_wgrad_nchw_helper<float, float>(P)", "other"),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(P)", "other"),
        ("void flip_filter<float, float>(float*, float const*, int, int, int, int)", "other"),
        ("batched_transpose_32x32_half", "other"),
        ("SubTensorOpWithScalar1d", "other"),
        ("void cudnn::fusion::convert_dq_to_16bits<true>(P)", "other"),
        ("at::cuda::philox::unpack_cudnn(at::PhiloxCudaState, long*, long*)", "other"),
        # Named after a product, but no product.
        ("triton_poi_fused_addmm_convolution_relu_0", "pointwise"),
        ("triton_red_fused_mm_native_layer_norm_1", "reduction"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::gemm_functor>(P)",
         "pointwise"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(P)", "reduction"),
        ("void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda(x)>(P)",
         "copy"),
        ("Memcpy DtoH (Device -> Pinned)", "copy"),
        ("Memset (Device)", "copy"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(P)", ""),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(P)", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_what_is_no_product(name: str, kind: str) -> None:
    assert kernel_kind(name) == kind
